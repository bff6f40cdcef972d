//! The same through the protocol, as an agent sees it.

use super::*;
use crate::server::{Client, fields, settings, text};
use serde_json::{Value, json};

async fn client() -> (Client, Arc<AtomicUsize>) {
    let made = sessions(SessionSettings { max_sandboxes: 2, ..SessionSettings::default() });
    let mut client = Client::connect_to(settings(), 1 << 16, Some(made.sessions));
    client.initialize("2025-06-18").await;
    (client, made.alive)
}

async fn call(client: &mut Client, tool: &str, arguments: Value) -> Value {
    client.call(tool, tool, arguments).await
}

#[tokio::test]
async fn the_whole_list_of_tools_is_small() {
    let (mut client, _) = client().await;
    let tools = client.ask(1, "tools/list", json!({})).await["result"].clone();
    let bytes = tools.to_string().len();
    assert!(bytes <= 6500, "{bytes} bytes");
    let names: Vec<_> = tools["tools"]
        .as_array()
        .expect("tools")
        .iter()
        .map(|tool| tool["name"].as_str().expect("a name"))
        .collect();
    let wanted = [
        "execute_python",
        "check_environment",
        "validate_script",
        "create_sandbox",
        "close_sandbox",
        "get_sandbox_status",
        "execute_code",
        "install_package",
        "create_run_close",
        "list_files",
        "read_file",
        "write_file",
        "upload_file",
        "delete_file",
    ];
    assert_eq!(names, wanted);
}

/// The table between two markers of the README; `UPDATE_SNAPSHOTS=1` writes it.
fn readme_has(name: &str, table: &str) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let readme = std::fs::read_to_string(path).expect("the README");
    let (begin, end) = (format!("<!-- {name}:begin -->\n"), format!("<!-- {name}:end -->"));
    let (before, rest) = readme.split_once(&begin).expect("the first marker");
    let (stands, after) = rest.split_once(&end).expect("the second marker");
    if stands != table && std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(path, format!("{before}{begin}{table}{end}{after}")).expect("written");
    } else {
        assert_eq!(stands, table, "run with UPDATE_SNAPSHOTS=1 if that is meant");
    }
}

#[tokio::test]
async fn the_readme_tells_what_the_tools_take_of_a_conversation() {
    use mcp_python_exec_sandbox::settings::{Settings, ToolFamily};
    use std::fmt::Write as _;
    let mut table =
        "| `--tools` | tools | bytes of their list | tokens, about | bytes of the instructions |\n\
                     |---|---|---|---|---|\n"
            .to_owned();
    for (name, tools) in [
        ("`execute`", vec![ToolFamily::Execute]),
        ("`sandbox`", vec![ToolFamily::Sandbox]),
        ("all", vec![ToolFamily::Execute, ToolFamily::Sandbox]),
    ] {
        let made = sessions(SessionSettings::default());
        let settings = Settings { tools, ..settings() };
        let mut client = Client::connect_to(settings, 1 << 16, Some(made.sessions));
        let greeting = client.initialize("2025-06-18").await;
        let list = client.ask(1, "tools/list", json!({})).await["result"].clone();
        let number = list["tools"].as_array().map_or(0, Vec::len);
        let bytes = list.to_string().len();
        let said = greeting["result"]["instructions"].as_str().map_or(0, str::len);
        let _ = writeln!(table, "| {name} | {number} | {bytes} | {} | {said} |", bytes.div_ceil(4));
    }
    readme_has("sizes", &table);
}

#[tokio::test]
async fn another_interpreter_serves_every_tool() {
    let (mut client, _) = client().await;
    let made = call(&mut client, "create_sandbox", json!({"session_id": "a"})).await;
    assert_eq!(fields(&made)["interpreter_type"], "echo");
    let ran = call(&mut client, "execute_code", json!({"session_id": "a", "code": "hi"})).await;
    assert_eq!((text(&ran).contains("hi 1"), &fields(&ran)["error"]), (true, &Value::Null));
    let written =
        call(&mut client, "write_file", json!({"session_id": "a", "file_path": "n.txt", "content": "note"}))
            .await;
    assert_eq!(fields(&written)["path"], "n.txt");
    let uploaded =
        json!({"session_id": "a", "file_name": "b.bin", "file_content": "AAEC", "encoding": "base64"});
    assert_eq!(fields(&call(&mut client, "upload_file", uploaded).await)["path"], "b.bin");
    let read = call(&mut client, "read_file", json!({"session_id": "a", "file_path": "n.txt"})).await;
    assert_eq!(fields(&read)["content"], "note");
    let read = call(&mut client, "read_file", json!({"session_id": "a", "file_path": "b.bin"})).await;
    assert_eq!((&fields(&read)["content"], &fields(&read)["size"]), (&Value::Null, &json!(3)));
    let installed =
        call(&mut client, "install_package", json!({"session_id": "a", "package_name": "six numpy>=2"}))
            .await;
    assert_eq!(fields(&installed)["installed"], json!({"numpy": "1.0", "six": "1.0"}));
    let status = call(&mut client, "get_sandbox_status", json!({"session_id": "a"})).await;
    assert_eq!(
        (&fields(&status)["status"], &fields(&status)["memory_bytes"]),
        (&json!("active"), &json!(4096))
    );
    let all = call(&mut client, "get_sandbox_status", json!({})).await;
    assert_eq!(fields(&all)["active_sessions"], json!(["a"]));
    let once = call(&mut client, "create_run_close", json!({"code": "x"})).await;
    assert_eq!(fields(&once)["sandbox_removed"], true);
}

/// What clients take: characters, and bytes as a bound of tokens.
fn fits(answer: &Value) {
    let content = answer["result"]["content"].as_array().expect("content");
    let texts: String = content.iter().filter_map(|part| part["text"].as_str()).collect();
    for shown in [Value::from(texts).to_string(), fields(answer).to_string()] {
        assert!(shown.len() < 50_000, "{} bytes, {} characters", shown.len(), shown.chars().count());
    }
    assert!(answer.to_string().len() < 150_000, "{}", answer.to_string().len());
}

#[tokio::test]
async fn the_largest_cell_fits_into_what_clients_take_and_the_rest_can_be_read() {
    let (mut client, _) = client().await;
    call(&mut client, "create_sandbox", json!({"session_id": "a"})).await;
    let once = call(&mut client, "create_run_close", json!({"code": "large"})).await;
    fits(&once);
    let ran = call(&mut client, "execute_code", json!({"session_id": "a", "code": "large"})).await;
    fits(&ran);
    let said = text(&ran);
    for kept in ["--- stdout ---\nout\n", "value 0 vvv", "\nfirst\n", "last\n", "results.txt has their texts"]
    {
        assert!(said.contains(kept), "{kept}: {said}");
    }
    for (name, wanted) in [
        ("stdout", "out\n".repeat(25_000)),
        ("traceback", format!("first{}last", "\n\u{1f40d}".repeat(6000))),
    ] {
        let uri = format!("run://2/{name}.txt");
        assert!(ran["result"]["content"].to_string().contains(&uri), "{uri}: {said}");
        let read = client.ask(name, "resources/read", json!({"uri": uri})).await;
        let read = read["result"]["contents"][0]["text"].as_str().expect("text").to_owned();
        assert!(read.starts_with(&wanted[..50_000.min(wanted.len())]), "{name} is not whole");
    }
    let read = client.ask("results", "resources/read", json!({"uri": "run://2/results.txt"})).await;
    let values = read["result"]["contents"][0]["text"].as_str().expect("text").matches("value ").count();
    assert_eq!(values, 100);
}

#[tokio::test]
async fn long_files_and_folders_fit_and_go_on() {
    let (mut client, _) = client().await;
    call(&mut client, "create_sandbox", json!({"session_id": "a"})).await;
    let long = (0..30_000).map(|number| format!("\u{e4}{number}\n")).collect::<Vec<_>>().concat();
    let write = json!({"session_id": "a", "file_path": "long.txt", "content": long});
    call(&mut client, "write_file", write).await;
    let (mut offset, mut found) = (0, String::new());
    while offset < long.len() {
        let read = json!({"session_id": "a", "file_path": "long.txt", "offset": offset, "length": 1_000_000});
        let read = call(&mut client, "read_file", read).await;
        fits(&read);
        let piece = fields(&read)["content"].as_str().expect("text");
        assert!(piece.len() > 20_000 || offset + piece.len() == long.len(), "{}", piece.len());
        found += piece;
        offset += piece.len();
        let goes_on = fields(&read)["notes"].to_string().contains(&format!("go on with offset {offset}"));
        assert_eq!(goes_on, offset < long.len());
    }
    assert!(found == long);
    for number in 0..400 {
        let path = format!("{number:03}{}", "\u{1f40d}".repeat(60));
        let write = json!({"session_id": "a", "file_path": path, "content": ""});
        call(&mut client, "write_file", write).await;
    }
    let listed = call(&mut client, "list_files", json!({"session_id": "a"})).await;
    fits(&listed);
    let shown = fields(&listed)["files"].as_array().expect("files").len();
    assert!((50..400).contains(&shown), "{shown}");
    assert!(text(&listed).contains(&format!("the first {shown} of 401 entries are shown")), "{listed}");
}

#[tokio::test(start_paused = true)]
async fn lines_of_a_cell_come_as_progress() {
    let (mut client, _) = client().await;
    call(&mut client, "create_sandbox", json!({"session_id": "a"})).await;
    for (tool, arguments) in [
        ("execute_code", json!({"session_id": "a", "code": "lines"})),
        ("create_run_close", json!({"code": "lines"})),
    ] {
        let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": tool}});
        client.ask(tool, "tools/call", params).await;
        let told: Vec<_> = client
            .others()
            .iter()
            .filter_map(|said| said["params"]["message"].as_str().map(str::to_owned))
            .collect();
        for row in ["row 0", "row 1", "row 2"] {
            assert!(told.iter().any(|line| line.ends_with(row)), "{tool} {row}: {told:?}");
        }
    }
}

#[tokio::test]
async fn instructions_and_tools_are_those_of_the_families_that_are_served() {
    use mcp_python_exec_sandbox::settings::{Settings, ToolFamily};
    for (tools, named, not_named) in [
        (vec![ToolFamily::Sandbox], "`create_sandbox`", "`execute_python`"),
        (vec![ToolFamily::Execute], "`validate_script`", "create_sandbox"),
        (vec![ToolFamily::Execute, ToolFamily::Sandbox], "`create_sandbox`", "create_run_close"),
    ] {
        let made = sessions(SessionSettings::default());
        let settings = Settings { tools, ..settings() };
        let mut client = Client::connect_to(settings, 1 << 16, Some(made.sessions));
        let greeting = client.initialize("2025-06-18").await;
        let said = greeting["result"]["instructions"].as_str().expect("instructions");
        assert!(said.contains(named) && !said.contains(not_named), "{said}");
    }
}

#[tokio::test]
async fn failures_say_the_same_in_words_and_fields() {
    let (mut client, _) = client().await;
    call(&mut client, "create_sandbox", json!({"session_id": "a"})).await;
    let long = "x".repeat(10_000);
    let wrong = [
        ("execute_code", json!({"session_id": "nobody", "code": "1"})),
        ("execute_code", json!({"session_id": "a/b", "code": "1"})),
        ("execute_code", json!({"session_id": long, "code": "1"})),
        ("execute_code", json!({"session_id": "a"})),
        ("execute_code", json!({"session_id": "a", "code": 5})),
        ("execute_code", json!({"session_id": "a", "code": "1", "timeout_seconds": 0})),
        ("create_sandbox", json!({"session_id": "a"})),
        ("create_sandbox", json!({"name": "a"})),
        ("close_sandbox", json!({"session_id": "nobody"})),
        ("get_sandbox_status", json!({"session_id": "nobody"})),
        ("read_file", json!({"session_id": "a", "file_path": "../../etc/passwd"})),
        ("read_file", json!({"session_id": "a", "file_path": "/etc/passwd"})),
        ("read_file", json!({"session_id": "a", "file_path": ""})),
        ("read_file", json!({"session_id": "a", "file_path": "missing"})),
        ("read_file", json!({"session_id": "a", "file_path": "n", "offset": -1})),
        ("write_file", json!({"session_id": "a", "file_path": "a\u{0}b", "content": ""})),
        ("upload_file", json!({"session_id": "a", "file_name": "../x", "file_content": ""})),
        ("upload_file", json!({"session_id": "a", "file_name": "/etc/x", "file_content": ""})),
        (
            "upload_file",
            json!({"session_id": "a", "file_name": "", "file_content": "", "destination_path": "d"}),
        ),
        (
            "upload_file",
            json!({"session_id": "a", "file_name": "x", "file_content": "", "destination_path": "/data"}),
        ),
        (
            "upload_file",
            json!({"session_id": "a", "file_name": "x", "file_content": "%", "encoding": "base64"}),
        ),
        (
            "upload_file",
            json!({"session_id": "a", "file_name": "x", "file_content": "", "encoding": "rot13"}),
        ),
        ("install_package", json!({"session_id": "a", "package_name": "--index-url=https://h"})),
        ("install_package", json!({"session_id": "a", "package_name": "six; rm -rf /"})),
        ("install_package", json!({"session_id": "a", "package_name": "$(id)"})),
        ("install_package", json!({"session_id": "a", "package_name": "./local"})),
        ("install_package", json!({"session_id": "a", "package_name": "/etc"})),
        ("install_package", json!({"session_id": "a", "package_name": ""})),
        ("install_package", json!({"session_id": "a", "package_name": []})),
    ];
    for (tool, arguments) in wrong {
        let answer = call(&mut client, tool, arguments.clone()).await;
        assert_eq!(answer["result"]["isError"], true, "{tool} {arguments}: {answer}");
        let message = fields(&answer)["message"].as_str().expect("a message").to_owned();
        assert!(text(&answer).contains(&message) && message.len() < 1000, "{tool}: {answer}");
    }
    let ran = call(&mut client, "execute_code", json!({"session_id": "a", "code": "x"})).await;
    assert_eq!(ran["result"]["isError"], false, "others are not affected: {ran}");
}

#[tokio::test]
async fn the_limit_is_named_and_a_closed_sandbox_makes_room() {
    let (mut client, _) = client().await;
    for name in ["a", "b"] {
        call(&mut client, "create_sandbox", json!({"session_id": name})).await;
    }
    let refused = call(&mut client, "create_sandbox", json!({})).await;
    assert!(text(&refused).contains("2 sandboxes are open") && text(&refused).contains("--max-sandboxes"));
    call(&mut client, "close_sandbox", json!({"session_id": "a"})).await;
    let made = call(&mut client, "create_sandbox", json!({})).await;
    assert_eq!(made["result"]["isError"], false, "{made}");
}

#[tokio::test]
async fn a_cancelled_call_is_interrupted_and_the_session_goes_on() {
    let (mut client, _) = client().await;
    call(&mut client, "create_sandbox", json!({"session_id": "a"})).await;
    let arguments = json!({"session_id": "a", "code": "sleep 600000"});
    client.request(77, "tools/call", json!({"name": "execute_code", "arguments": arguments})).await;
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}});
    client.send(&cancelled).await;
    let ran = call(&mut client, "execute_code", json!({"session_id": "a", "code": "x"})).await;
    // Whether it had begun or not, it is not in the way.
    assert_eq!(ran["result"]["isError"], false, "{ran}");
}

#[tokio::test]
async fn everything_is_gone_when_the_client_goes() {
    let (mut client, alive) = client().await;
    for name in ["a", "b"] {
        call(&mut client, "create_sandbox", json!({"session_id": name})).await;
    }
    assert_eq!(alive.load(Ordering::SeqCst), 2);
    client.close_input();
    client.ended().await.expect("the server ends well");
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn files_are_resources() {
    let (mut client, _) = client().await;
    call(&mut client, "create_sandbox", json!({"session_id": "a"})).await;
    call(&mut client, "write_file", json!({"session_id": "a", "file_path": "d/n.csv", "content": "a,b"}))
        .await;
    let templates = client.ask(1, "resources/templates/list", json!({})).await;
    let templates = templates["result"]["resourceTemplates"].as_array().cloned().unwrap_or_default();
    let wanted = "sandbox://{session_id}/{+path}{?offset,length}";
    assert!(templates.iter().any(|template| template["uriTemplate"] == wanted), "{templates:?}");
    let read = client.ask(2, "resources/read", json!({"uri": "sandbox://a/d/n.csv"})).await;
    assert_eq!(read["result"]["contents"][0]["text"], "a,b");
    assert_eq!(read["result"]["contents"][0]["mimeType"], "text/csv");
    for uri in
        ["sandbox://a/../x", "sandbox://b/d/n.csv", "sandbox://a/none", "file:///etc/passwd", "sandbox://a"]
    {
        let refused = client.ask(3, "resources/read", json!({"uri": uri})).await;
        assert!(refused["error"]["message"].is_string(), "{uri}: {refused}");
    }
}
