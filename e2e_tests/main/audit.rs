//! The audit log, read back.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::client::{Server, binary, common_flags, text};

fn lines(file: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("the log is there");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// SHA-256 of `print('audited')`.
const HASH: &str = "9cbafdf18d0fc4ed29cfcce3a8edb5b06d2f324d2f6d588286b816c69a95ac5f";

#[test]
fn calls_over_standard_input_are_read_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("audit.jsonl");
    let mut server = Server::start(&["--audit-log", file.to_str().expect("plain")]);
    let request = json!({
        "name": "execute_python",
        "arguments": {"script": "print('audited')", "timeout_seconds": 60},
        "_meta": {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
    });
    let answer = server.request("tools/call", request);
    assert_eq!(answer["result"]["structuredContent"]["exit_code"], 0, "{answer}");
    server.run("import sys; sys.exit(5)");
    server.tool("execute_python", json!({"script": "while True: pass", "timeout_seconds": 1}));
    server.tool("execute_python", json!({"script": "pass", "dependencies": ["-e ."]}));
    let hanging =
        server.ask_tool("execute_python", json!({"script": "while True: pass", "timeout_seconds": 60}));
    server.notify("notifications/cancelled", json!({"requestId": hanging}));
    server.close_input();
    server.wait();
    let lines = lines(&file);
    assert_eq!(lines.len(), 5, "{lines:?}");
    let first = &lines[0];
    for (key, value) in [
        ("client", json!({"name": "e2e", "version": "0"})),
        ("tool", "execute_python".into()),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
        ("script_sha256", HASH.into()),
        ("dependencies", json!([])),
        ("outcome", "answered".into()),
        ("exit", 0.into()),
        ("tier", answer["result"]["structuredContent"]["tier"].clone()),
    ] {
        assert_eq!(first[key], value, "{key} in {first}");
    }
    assert_eq!(first["limits"]["memory"], 2_u64 << 30);
    assert!(first["environment"].as_str().is_some_and(|key| key.len() > 8), "{first}");
    assert!(first["duration_ms"].as_u64().is_some_and(|duration| duration < 60_000), "{first}");
    assert_eq!(first["time"].as_str().map(str::len), Some("2026-01-01T00:00:00.000Z".len()));
    let ends: Vec<_> =
        lines[1..].iter().map(|line| (&line["outcome"], &line["exit"], &line["failure"])).collect();
    let (none, answered) = (&Value::Null, &json!("answered"));
    assert_eq!(ends[0], (answered, &json!(5), none));
    assert_eq!((ends[1].0, ends[1].2), (&json!("failed"), &json!("timeout")));
    assert_eq!((ends[2].0, ends[2].2), (&json!("failed"), &json!("refused_requirement")));
    let cancelled = lines.iter().filter(|line| line["outcome"] == "cancelled").count();
    assert_eq!(cancelled, 1, "{lines:?}");
    assert!(!std::fs::read_to_string(&file).expect("there").contains("audited"));
    let mode = std::fs::metadata(&file).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn calls_into_stateful_sandboxes_are_read_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("audit.jsonl");
    let mut server = Server::start(&["--audit-log", file.to_str().expect("plain")]);
    let made = server.tool("create_sandbox", json!({}));
    let id = made["structuredContent"]["session_id"].as_str().expect("a name").to_owned();
    let mut call = |tool: &str, mut arguments: Value| {
        arguments["session_id"] = json!(id);
        server.tool(tool, arguments)
    };
    call("execute_code", json!({"code": "print('audited')"}));
    call("execute_code", json!({"code": "1 / 0"}));
    call("execute_code", json!({"code": "import time; time.sleep(60)", "timeout_seconds": 1}));
    call("execute_code", json!({"code": "import os; os._exit(1)"}));
    call("install_package", json!({"package_name": "six", "timeout_seconds": 120}));
    call("execute_code", json!({"code": "import six"}));
    call("install_package", json!({"package_name": "-e ."}));
    call("read_file", json!({"file_path": "../x"}));
    call("read_file", json!({"path": "x"}));
    call("close_sandbox", json!({}));
    call("execute_code", json!({"code": "1"}));
    server.close_input();
    server.wait();
    let lines = lines(&file);
    let said: Vec<_> = lines
        .iter()
        .map(|line| {
            assert_eq!((&line["session"], &line["client"]["name"]), (&json!(id), &json!("e2e")), "{line}");
            let word = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
            (word("tool"), word("outcome"), word("failure"))
        })
        .collect();
    let wanted = [
        ("create_sandbox", "answered", ""),
        ("execute_code", "answered", ""),
        ("execute_code", "answered", "exception"),
        ("execute_code", "failed", "interrupted"),
        ("execute_code", "failed", "state_lost"),
        ("install_package", "answered", ""),
        ("execute_code", "answered", ""),
        ("install_package", "failed", "refused_requirement"),
        ("read_file", "failed", "file"),
        ("read_file", "failed", "invalid_arguments"),
        ("close_sandbox", "answered", ""),
        ("execute_code", "failed", "unknown_sandbox"),
    ];
    let wanted = wanted.map(|(tool, outcome, failure)| (tool.into(), outcome.into(), failure.into()));
    assert_eq!(said, wanted, "{lines:?}");
    assert_eq!((&lines[1]["script_sha256"], &lines[5]["dependencies"]), (&json!(HASH), &json!(["six"])));
    let environments: Vec<_> = [1, 5, 6].map(|line| lines[line]["environment"].clone()).into();
    assert!(environments.iter().all(|key| key.as_str().is_some_and(|key| key.len() > 8)), "{lines:?}");
    assert!(environments[0] != environments[1] && environments[1] == environments[2], "{environments:?}");
    assert!(!std::fs::read_to_string(&file).expect("there").contains("audited"));
}

#[test]
fn a_run_is_written_down_with_its_text_when_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, script) = (folder.path().join("audit.jsonl"), folder.path().join("script.py"));
    std::fs::write(&script, "print('audited')").expect("writable");
    let run = Command::new(binary())
        .arg("run")
        .arg(&script)
        .args(common_flags(&[]))
        .arg("--audit-scripts")
        .arg("--audit-log")
        .arg(&file)
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    assert!(run.status.success(), "{run:?}");
    let lines = lines(&file);
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!((&line["tool"], &line["exit"]), (&json!("run"), &json!(0)));
    assert_eq!((&line["script"], &line["script_sha256"]), (&json!("print('audited')"), &json!(HASH)));
}

#[test]
fn a_log_that_cannot_be_written_stops_the_server_at_its_start() {
    for arguments in [&[][..], &["run", "-"]] {
        let refused = Command::new(binary())
            .args(arguments)
            .args(["--audit-log", "/no/such/folder/audit.jsonl"])
            .stdin(Stdio::null())
            .output()
            .expect("it starts");
        assert_eq!(refused.status.code(), Some(125), "{refused:?}");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(
            said.starts_with("error: the audit log /no/such/folder/audit.jsonl cannot be written: "),
            "{said}"
        );
    }
}

/// The log stands on a file system of its own, which is full when the second call ends.
#[test]
fn a_log_that_cannot_be_written_later_is_said_in_the_result() {
    if !rustix::process::getuid().is_root() {
        crate::skipped::skipped("a full disk below the audit log: only root can mount one");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = format!(
        "mount -t tmpfs -o size=8k none {0} && exec {1} {2} --no-warm-cache --audit-scripts --audit-log {0}/audit.jsonl",
        folder.path().display(),
        binary().display(),
        common_flags(&[]).join(" "),
    );
    let mut server = Server::start_command(Command::new("unshare").args([
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        &script,
    ]));
    let first = server.run("print(1)");
    assert!(!text(&first).contains("audit log"), "{first}");
    let long = format!("print(2) #{}", "x".repeat(20_000));
    let second = server.run(&long);
    assert_eq!(second["structuredContent"]["exit_code"], 0, "{second}");
    for said in [text(&second), second["structuredContent"]["notes"].to_string()] {
        assert!(
            said.contains("audit.jsonl cannot be written") && said.contains("this call is not in it"),
            "{said}"
        );
    }
}
