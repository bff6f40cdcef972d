//! What comes back beside text: files and pictures of scripts, and folders of the user's that sandboxes see.

use serde_json::{Value, json};

use crate::backend::differs;
use crate::client::{Server, binary, common_flags, text};

fn images(result: &Value) -> usize {
    let parts = result["content"].as_array().expect("content");
    parts.iter().filter(|part| part["type"] == "image").count()
}

#[test]
fn files_that_a_script_leaves_come_back_as_pictures_and_links() {
    let mut server = Server::start(&[]);
    let script = "import os, struct, zlib\nos.makedirs('output/sub')\n\
        def chunk(name, data): return struct.pack('>I', len(data)) + name + data + struct.pack('>I', zlib.crc32(name + data))\n\
        png = b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 1, 1, 8, 0, 0, 0, 0)) + chunk(b'IDAT', zlib.compress(b'\\0\\0')) + chunk(b'IEND', b'')\n\
        open('output/dot.png', 'wb').write(png)\nopen('output/sub/a b.csv', 'w').write('x,y')\n\
        open('output/huge.png', 'wb').write(png + bytes(1 << 20))\nos.symlink('/etc/passwd', 'output/link')\nopen('elsewhere', 'w').close()";
    let result = server.run(script);
    assert_eq!((images(&result), result.get("structuredContent")), (1, None), "{result}");
    for name in ["output/dot.png", "output/sub/a b.csv", "output/huge.png"] {
        assert!(text(&result).contains(name), "{name}: {}", text(&result));
    }
    assert!(text(&result).contains("output/huge.png is not shown: its "), "{}", text(&result));
    assert!(!text(&result).contains("link") && !text(&result).contains("elsewhere"), "{}", text(&result));
    let list = server.request("resources/list", json!({}));
    let listed = list["result"]["resources"].as_array().expect("resources").len();
    assert_eq!(listed, 3, "{list}");
    let read = server.request("resources/read", json!({"uri": "run://1/output/sub/a%20b.csv"}));
    assert_eq!(read["result"]["contents"][0]["text"], "x,y", "{read}");
    let plain = server.run("print(1)");
    assert_eq!((images(&plain), plain["structuredContent"]["stdout"].as_str()), (0, Some("1\n")));
}

#[test]
fn open_figures_of_a_script_are_shown() {
    let mut server = Server::start(&[]);
    let script = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nplt.figure()\nplt.bar([1], [2])\nraise SystemExit(3)";
    let arguments = json!({"script": script, "dependencies": ["matplotlib"], "timeout_seconds": 280});
    let result = server.tool("execute_python", arguments);
    assert_eq!(images(&result), 2, "{}", text(&result));
    assert!(text(&result).contains("exit_code: 3"), "{}", text(&result));
}

/// A script that needs matplotlib.
fn draw(server: &mut Server, script: &str) -> Value {
    let script = format!("import matplotlib\n{script}");
    server.tool(
        "execute_python",
        json!({"script": script, "dependencies": ["matplotlib"], "timeout_seconds": 280}),
    )
}

#[test]
fn a_figure_that_is_too_large_is_shown_smaller() {
    let mut server = Server::start(&[]);
    let noise = "import matplotlib.pyplot as plt, numpy as np\nplt.figure(dpi=200)\n\
                 plt.imshow(np.random.default_rng(1).random((900, 900)), interpolation='nearest')";
    let result = draw(&mut server, noise);
    let text = text(&result);
    assert!(text.contains("output/figure-1.png") && text.contains("output/figure-1-small.png"), "{text}");
    assert!(!text.contains("is not shown"), "{text}");
    let parts = result["content"].as_array().expect("content");
    let shown: Vec<_> = parts.iter().filter_map(|part| part["data"].as_str()).collect();
    assert!(shown.len() == 1 && (10_000..=350_000).contains(&shown[0].len()), "{text}");
    let link = parts.iter().find(|part| part["name"] == "output/figure-1.png").expect("the whole figure");
    assert!(link["size"].as_u64() > Some(256 << 10), "{link}");
}

#[test]
fn figures_that_nobody_would_get_are_told() {
    let mut server = Server::start(&[]);
    for (script, told) in [
        (
            "import matplotlib.pyplot as plt\nplt.plot([1])\nplt.savefig('/tmp/plot.png')\nplt.close()",
            "thrown away with the sandbox: /tmp/plot.png; save to output/",
        ),
        (
            "import matplotlib.pyplot as plt\nplt.plot([1])\nplt.savefig('plot.png')\nplt.close()",
            "thrown away with the sandbox: plot.png; save to output/",
        ),
        (
            "matplotlib.use('Agg')\nimport matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()",
            "the choice of Agg",
        ),
        ("import matplotlib.pyplot as plt\nplt.plot([1])\nplt.savefig('plot.png')", "output/figure-1.png"),
    ] {
        let result = draw(&mut server, script);
        assert!(text(&result).contains("exit_code: 0") && text(&result).contains(told), "{}", text(&result));
        let notes = result["structuredContent"]["notes"].to_string();
        assert_eq!(images(&result) == 1, told == "output/figure-1.png", "{result}");
        assert!(images(&result) == 1 || notes.contains(told), "{notes}");
    }
}

#[test]
fn a_folder_of_the_user_is_shown_read_only() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("sales.csv"), "1,2").expect("written");
    // Everybody may write to it: only the sandbox's mount is in the way.
    let all = std::os::unix::fs::PermissionsExt::from_mode;
    std::fs::set_permissions(folder.path(), all(0o777)).expect("set");
    std::fs::set_permissions(folder.path().join("sales.csv"), all(0o666)).expect("set");
    let mount = format!("{}:data", folder.path().display());
    if differs("`--mount`") {
        let flags = ["--mount", &mount];
        let mut refused = std::process::Command::new(binary());
        let output = refused.args(common_flags(&flags)).args(flags).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(125) && said.contains("--mount needs the native backend"),
            "{output:?}"
        );
        return;
    }
    let mut server = Server::start(&["--mount", &mount]);
    let environment = server.tool("check_environment", json!({}));
    if !text(&environment).contains("is shown as /work/data, read-only") {
        // Only the full tier can show it; elsewhere the server says so and runs nothing.
        crate::skipped::skipped(format_args!("mounted folder: {}", text(&environment)));
        return;
    }
    let code = "print(open('data/sales.csv').read())\ntry: open('data/new', 'w')\nexcept OSError as e: print(e.errno)\n\
                try: open('data/sales.csv', 'a')\nexcept OSError as e: print(e.errno)";
    let result = server.run(code);
    assert_eq!(result["structuredContent"]["stdout"], "1,2\n30\n30\n", "{result}");
    server.tool("create_sandbox", json!({"session_id": "s"}));
    let read = server.tool("read_file", json!({"session_id": "s", "file_path": "data/sales.csv"}));
    assert_eq!(read["structuredContent"]["content"], "1,2", "{read}");
    let written =
        server.tool("write_file", json!({"session_id": "s", "file_path": "data/new", "content": "x"}));
    assert_eq!(written["isError"], true, "{written}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
}
