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
