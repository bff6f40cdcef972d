//! Bad input, both protocol eras, ids and lifecycle: the server answers or ignores it, and lives on.

mod server;

use serde_json::{Value, json};
use server::{Client, error_code, text};

const META: &str = "io.modelcontextprotocol/protocolVersion";

fn stateless(mut params: Value) -> Value {
    params["_meta"] = json!({
        META: "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

#[tokio::test]
async fn every_unreadable_line_gets_one_error_and_the_session_goes_on() {
    let mut client = Client::initialized().await;
    let lines: &[(&[u8], i64, Value)] = &[
        (b"this is not json", -32700, Value::Null),
        (b"{\"jsonrpc\":\"2.0\",\"id\":2,", -32700, Value::Null),
        (b"\"method\":\"ping\"}", -32700, Value::Null),
        (b"\xff\xfe not utf8", -32700, Value::Null),
        (b"Content-Length: 10\r", -32700, Value::Null),
        (b"[]", -32600, Value::Null),
        (b"null", -32600, Value::Null),
        (b"{\"id\":5}", -32600, json!(5)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", -32600, Value::Null),
        (b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", -32600, Value::Null),
        (b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{\"name\":\"execute_python\",\"arguments\":{\"script\":\"print('\\ud800')\"}}}", -32700, json!(7)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"nothing/here\"}", -32601, json!(8)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/call\",\"params\":{\"name\":5}}", -32602, json!(9)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":10,\"method\":\"tools/list\",\"params\":[1]}", -32602, json!(10)),
    ];
    for (line, code, id) in lines {
        client.raw(line).await;
        client.raw(b"\n").await;
        let answer = client.next().await.expect("the server lives");
        let shown = String::from_utf8_lossy(line);
        assert_eq!((error_code(&answer), &answer["id"]), (*code, id), "{shown}: {answer}");
        client.quiet().await;
    }
    assert_eq!(client.fake.requests(), []);
}

#[tokio::test]
async fn blank_lines_carriage_returns_and_pieces_of_a_line_are_fine() {
    let mut client = Client::initialized().await;
    client.raw(b"\n\r\n   \n").await;
    for byte in b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\r\n" {
        client.raw(&[*byte]).await;
    }
    assert_eq!(client.answer(2).await["result"], json!({}));
    client.raw(b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\"}\n{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"ping\"}\r\n").await;
    client.answer(3).await;
    client.answer(4).await;
    client.raw(b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"ping\"}\n").await;
    client.answer(5).await;
    client.quiet().await;
}

#[tokio::test]
async fn a_line_over_the_limit_is_answered_by_its_id_and_skipped() {
    let mut client = Client::initialized().await;
    let chunk = vec![b'x'; 1 << 20];
    for (head, tail) in [
        ("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"", "\"}}\n"),
        ("{\"method\":\"tools/call\",\"params\":{\"name\":\"", "\"},\"jsonrpc\":\"2.0\",\"id\":2}\n"),
    ] {
        client.raw(head.as_bytes()).await;
        for _ in 0..20 {
            client.raw(&chunk).await;
        }
        client.raw(tail.as_bytes()).await;
        let answer = client.next().await.expect("the server lives");
        assert_eq!((error_code(&answer), &answer["id"]), (-32600, &json!(2)), "{answer}");
        assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains("16 MiB")), "{answer}");
        client.quiet().await;
    }
}

#[tokio::test]
async fn a_script_of_several_megabytes_arrives_whole() {
    let mut client = Client::initialized().await;
    let script = format!("# {}\n", "\u{e4}\"\\".repeat(1_300_000));
    let answer = client.call(1, "execute_python", json!({"script": script})).await;
    assert!(text(&answer).contains("exit_code: 0"));
    assert!(client.fake.requests()[0].script == script, "the script was changed");
}

#[tokio::test]
async fn ids_come_back_as_they_were() {
    let mut client = Client::initialized().await;
    for id in [json!(0), json!(-3), json!(i64::MAX), json!(""), json!("7"), json!(7), json!("\u{2028}\"x")] {
        let answer = client.ask(id.clone(), "ping", json!({})).await;
        assert_eq!(answer, json!({"jsonrpc": "2.0", "id": id, "result": {}}));
    }
}

#[tokio::test]
async fn the_second_of_two_requests_with_one_id_is_refused() {
    let mut client = Client::initialized().await;
    client.request(5, "tools/call", json!({"name": "execute_python", "arguments": {"script": "hang"}})).await;
    client.fake.until("the call runs", |fake| fake.running() == 1).await;
    let answer = client.ask(5, "ping", json!({})).await;
    assert_eq!(error_code(&answer), -32600);
    // Another type is another id.
    assert_eq!(client.ask("5", "ping", json!({})).await["result"], json!({}));
    assert_eq!(client.fake.running(), 1);
    client
        .send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}))
        .await;
    client.fake.until("the call is dropped", |fake| fake.running() == 0).await;
    assert_eq!(client.ask(5, "ping", json!({})).await["result"], json!({}));
}

#[tokio::test]
async fn nothing_runs_before_initialize() {
    let mut client = Client::connect();
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    client
        .send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}))
        .await;
    for method in ["tools/call", "tools/list", "resources/list", "nothing/here"] {
        let params = json!({"name": "execute_python", "arguments": {"script": "x"}});
        let answer = client.ask(91, method, params).await;
        assert_eq!(error_code(&answer), -32600, "{method}: {answer}");
        assert!(
            answer["error"]["message"].as_str().is_some_and(|text| text.contains("initialize")),
            "{answer}"
        );
    }
    assert_eq!(client.ask(92, "ping", json!({})).await["result"], json!({}));
    client.initialize("2025-06-18").await;
    assert!(
        text(&client.call(2, "execute_python", json!({"script": "x"})).await).starts_with("--- stdout ---")
    );
    assert_eq!(client.fake.requests().len(), 1);
    client.quiet().await;
}

#[tokio::test]
async fn initialize_agrees_on_a_version_that_both_know() {
    for (asked, answered) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        ("9999-12-31", "2025-11-25"),
        ("", "2025-11-25"),
        ("latest", "2025-11-25"),
    ] {
        let mut client = Client::connect();
        let answer = client.initialize(asked).await;
        assert_eq!(answer["result"]["protocolVersion"], answered, "{asked}: {answer}");
        assert_eq!(
            answer["result"]["serverInfo"],
            json!({"name": "mcp-python-exec-sandbox", "version": env!("CARGO_PKG_VERSION")})
        );
        client.quiet().await;
    }
}

#[tokio::test]
async fn initialize_without_a_usable_version_is_refused_and_can_be_repeated() {
    let mut client = Client::connect();
    for version in [json!(5), json!(null), json!([]), json!({"a": 1})] {
        let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let answer = client.ask(1, "initialize", params).await;
        assert_eq!(error_code(&answer), -32602, "{answer}");
    }
    assert_eq!(error_code(&client.ask(1, "initialize", json!({})).await), -32602);
    assert_eq!(error_code(&client.ask(1, "initialize", json!(null)).await), -32602);
    assert_eq!(error_code(&client.ask(2, "tools/list", json!({})).await), -32600);
    client.initialize("2025-06-18").await;
    let second = client.initialize("2025-11-25").await;
    assert_eq!(second["result"]["protocolVersion"], "2025-11-25");
    assert!(client.ask(3, "tools/list", json!({})).await["result"]["tools"].is_array());
}

#[tokio::test]
async fn a_client_may_describe_itself_in_a_shape_of_its_own() {
    for params in [
        json!({"protocolVersion": "2025-06-18"}),
        json!({"protocolVersion": "2025-06-18", "capabilities": null, "clientInfo": "me"}),
        json!({"protocolVersion": "2025-06-18", "capabilities": {"experimental": {"x": true}}, "clientInfo": {}, "more": 1}),
    ] {
        let mut client = Client::connect();
        let answer = client.ask(1, "initialize", params).await;
        assert_eq!(answer["result"]["protocolVersion"], "2025-06-18", "{answer}");
    }
}

#[tokio::test]
async fn the_stateless_protocol_is_served_beside_the_older_one() {
    let mut client = Client::connect();
    let found = client.ask(1, "server/discover", stateless(json!({}))).await;
    let versions = found["result"]["supportedVersions"].as_array().cloned().unwrap_or_default();
    assert!(versions.contains(&json!("2026-07-28")) && versions.contains(&json!("2025-06-18")), "{found}");
    let list = client.ask(2, "tools/list", stateless(json!({}))).await;
    assert_eq!(
        (&list["result"]["ttlMs"], &list["result"]["cacheScope"]),
        (&json!(3_600_000), &json!("private"))
    );
    let call = json!({"name": "execute_python", "arguments": {"script": "x"}});
    let called = client.ask(3, "tools/call", stateless(call.clone())).await;
    assert_eq!(called["result"]["resultType"], "complete", "{called}");
    // Without its version a request is not stateless, and nothing else has been agreed on.
    assert_eq!(error_code(&client.ask(4, "tools/call", call.clone()).await), -32600);
    // A version that nobody knows.
    let mut unknown = stateless(call.clone());
    unknown["_meta"][META] = json!("2031-01-01");
    assert_eq!(error_code(&client.ask(5, "tools/call", unknown).await), -32022);
    // Cancelling works without a session.
    let hanging = json!({"name": "execute_python", "arguments": {"script": "hang"}});
    client.request(6, "tools/call", stateless(hanging)).await;
    client.fake.until("the call runs", |fake| fake.running() == 1).await;
    client
        .send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 6}}))
        .await;
    client.fake.until("the call is dropped", |fake| fake.running() == 0).await;
    // And a session may still begin.
    client.initialize("2025-06-18").await;
    let called = client.ask(7, "tools/call", call).await;
    assert_eq!(called["result"].get("resultType"), None, "{called}");
    assert_eq!(client.ask(8, "tools/list", json!({})).await["result"].get("ttlMs"), None);
    client.quiet().await;
}

#[tokio::test]
async fn discover_without_metadata_is_told_what_is_missing() {
    let mut client = Client::connect();
    let answer = client.ask(1, "server/discover", json!({})).await;
    assert_eq!(error_code(&answer), -32602);
    assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains(META)), "{answer}");
    client.initialize("2025-11-25").await;
    client.quiet().await;
}

#[tokio::test]
async fn notifications_of_any_kind_get_no_answer() {
    let mut client = Client::initialized().await;
    for notification in [
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled"}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 404}}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": {}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": 5}),
        json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}),
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}}),
        json!({"jsonrpc": "2.0", "method": "made/up", "params": {}}),
        json!({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "execute_python", "arguments": {"script": "x"}}}),
        json!({"jsonrpc": "2.0", "id": 77, "result": {}}),
        json!({"jsonrpc": "2.0", "id": 78, "error": {"code": 1, "message": "x"}}),
    ] {
        client.send(&notification).await;
        client.quiet().await;
    }
    assert_eq!(client.fake.requests(), []);
}

#[tokio::test]
async fn what_this_server_does_not_offer_is_not_found() {
    let mut client = Client::initialized().await;
    for (method, params) in [
        ("prompts/list", json!({})),
        ("prompts/get", json!({"name": "x"})),
        ("logging/setLevel", json!({"level": "info"})),
        ("logging/setLevel", json!({"level": 5})),
        ("resources/subscribe", json!({})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": "b"}}),
        ),
        ("subscriptions/listen", json!({"notifications": {}})),
        ("tasks/get", json!({"taskId": "1"})),
    ] {
        let answer = client.ask(1, method, params).await;
        let message = format!("this server has no method `{method}`; it offers tools and resources only");
        assert_eq!((error_code(&answer), &answer["error"]["message"]), (-32601, &json!(message)));
    }
    client.quiet().await;
}
