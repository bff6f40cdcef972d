//! Every kind of wrong input gets a clear answer; the server lives on and nothing is left behind.

use serde_json::{Value, json};

use crate::client::{Server, text};

/// Whether the call was refused, with this in its words.
fn assert_refused(server: &mut Server, arguments: Value, words: &[&str]) {
    let shown: String = arguments.to_string().chars().take(120).collect();
    let id = server.ask_tool("execute_python", arguments);
    let reply = server.reply(id);
    let said = if let Some(error) = reply.get("error") {
        error["message"].as_str().unwrap_or_default().to_owned()
    } else {
        assert_eq!(reply["result"]["isError"], true, "{shown} was taken: {reply}");
        text(&reply["result"])
    };
    for word in words {
        assert!(said.contains(word), "{shown}: {word:?} is not in {said:?}");
    }
    assert_eq!(server.request("ping", json!({}))["result"], json!({}), "after {shown}");
}

#[test]
fn scripts_that_cannot_run_are_refused_in_words() {
    let mut server = Server::start(&[]);
    assert_refused(&mut server, json!({"script": ""}), &["empty"]);
    assert_refused(&mut server, json!({"script": " \n\t"}), &["empty"]);
    assert_refused(&mut server, json!({"script": "print(1)\0"}), &["NUL"]);
    assert_refused(
        &mut server,
        json!({"script": "# /// script\n# dependencies = 'six'\n# ///\n"}),
        &["line 2", "list"],
    );
    assert_refused(&mut server, json!({"script": "# /// script\n# dependencies = []\n"}), &["line 1"]);
    let excluded = "# /// script\n# requires-python = '>=3.99'\n# ///\n";
    assert_refused(&mut server, json!({"script": excluded}), &[">=3.99", "3."]);
}

#[test]
fn dependencies_that_cannot_be_had_are_refused_in_words() {
    let mut server = Server::start(&[]);
    let call = |dependencies: Value| json!({"script": "print('RAN')", "dependencies": dependencies, "timeout_seconds": 90});
    assert_refused(&mut server, call(json!("six")), &["list"]);
    assert_refused(&mut server, call(json!(["six >>= 1"])), &["six"]);
    assert_refused(&mut server, call(json!(["--index-url=http://127.0.0.1:9"])), &[]);
    assert_refused(&mut server, call(json!(["x @ file:///etc"])), &["file"]);
    assert_refused(
        &mut server,
        call(json!(["no-such-package-as-this-one-3141"])),
        &["no-such-package-as-this-one-3141"],
    );
    assert_refused(&mut server, call(json!(["six==999"])), &["six", "999"]);
    let inline = "# /// script\n# dependencies = ['packaging<24']\n# ///\nprint('RAN')";
    let conflict = json!({"script": inline, "dependencies": ["packaging>=24"]});
    assert_refused(&mut server, conflict, &["packaging<24", "packaging>=24"]);
}

#[test]
fn timeouts_outside_the_range_are_refused_or_clamped_with_a_note() {
    let mut server = Server::start(&[]);
    for wrong in [json!(0), json!(-5), json!(2.5), json!("30s"), json!("NaN"), json!(true), json!([])] {
        assert_refused(&mut server, json!({"script": "print(1)", "timeout_seconds": wrong}), &["1", "300"]);
    }
    for right in [json!("17"), json!(12.0), json!(300), Value::Null] {
        let result =
            server.tool("execute_python", json!({"script": "print('ran')", "timeout_seconds": right}));
        assert_eq!(result["structuredContent"]["stdout"], "ran\n", "{right}");
    }
    let clamped = server.tool("execute_python", json!({"script": "print('ran')", "timeout_seconds": 301}));
    assert!(text(&clamped).contains("300"), "{clamped}");
}

#[test]
fn unknown_names_are_named() {
    let mut server = Server::start(&[]);
    let id = server.ask_tool("execute_pyhton", json!({}));
    assert!(server.reply(id).to_string().contains("execute_pyhton"));
    assert_refused(&mut server, json!({"script": "print(1)", "timout": 3}), &["timout"]);
    assert_refused(&mut server, json!({"dependencies": []}), &["script"]);
}

#[test]
fn a_large_script_runs_and_a_larger_line_is_refused() {
    let mut server = Server::start(&[]);
    let padding = "#".repeat(5 << 20);
    assert_eq!(server.run(&format!("{padding}\nprint('ran')"))["structuredContent"]["stdout"], "ran\n");
    let line = vec![b'x'; 20 << 20];
    server.send_line(&line);
    server.send_line(b"{broken");
    assert_eq!(server.request("ping", json!({}))["result"], json!({}));
}

#[test]
fn a_syntax_error_is_an_ordinary_result_and_validation_names_its_line() {
    let mut server = Server::start(&[]);
    let result = server.run("x = 1\nprint('a'\n");
    assert_eq!(result["structuredContent"]["exit_code"], 1, "{result}");
    assert!(text(&result).contains("SyntaxError"));
    let checked = server.tool("validate_script", json!({"script": "x = 1\nif x:\nprint(1)\n"}));
    let said = text(&checked);
    assert!(said.starts_with("INVALID") && said.contains("line 3"), "{said}");
    assert!(text(&server.tool("validate_script", json!({"script": "print(1)"}))).starts_with("VALID"));
}

#[test]
fn a_module_that_is_missing_leads_to_its_package() {
    let mut server = Server::start(&[]);
    let result = server.tool("execute_python", json!({"script": "import yaml"}));
    assert_eq!((&result["isError"], &result["structuredContent"]["exit_code"]), (&json!(false), &json!(1)));
    assert!(text(&result).contains("dependencies = [\"pyyaml\"]"), "{result}");
    let id = server.tool("create_sandbox", json!({}))["structuredContent"]["session_id"].clone();
    let result = server.tool("execute_code", json!({"session_id": id, "code": "import yaml"}));
    assert!(text(&result).contains("install_package (package_name `pyyaml`)"), "{result}");
}
