//! What clients see of the tools: lists, results and refusals, to the byte.

mod server;

use std::time::Duration;

use mcp_python_exec_sandbox::execution::report::Captured;
use mcp_python_exec_sandbox::execution::validation::{Finding, Validation};
use mcp_python_exec_sandbox::sandbox::facts::Refusal;
use mcp_python_exec_sandbox::sandbox::{Backend, ExitStatus, LayerState, LayerStatus, LimitHit, Tier};
use serde_json::{Value, json};
use server::{Client, captured, error_code, fields, python, text};

/// Compares with a stored text; `UPDATE_SNAPSHOTS=1` writes it.
fn snapshot(name: &str, found: &str) {
    let path = format!("{}/tests/snapshots/server/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, found).expect("the snapshot is written");
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    assert!(found == stored, "{name} has changed; if that is meant, run with UPDATE_SNAPSHOTS=1\n{found}");
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).expect("a value can be written") + "\n"
}

/// Text and fields of a result, as a snapshot.
fn whole(answer: &Value) -> String {
    format!("{}\n\n{}", text(answer), pretty(fields(answer)))
}

#[tokio::test]
async fn the_list_of_tools_is_short_and_stable() {
    let mut client = Client::initialized().await;
    let answer = client.ask(1, "tools/list", json!({})).await;
    snapshot("tools_list.json", &pretty(&answer["result"]));
    let length = answer.to_string().len();
    assert!(length <= 1200, "tools/list takes {length} bytes");
    assert_eq!(client.ask(1, "tools/list", json!({})).await, answer);
}

#[tokio::test]
async fn the_greeting_is_short_and_stable() {
    let mut client = Client::connect();
    let answer = client.initialize("2025-06-18").await;
    let shown = pretty(&answer["result"]).replace(env!("CARGO_PKG_VERSION"), "VERSION");
    snapshot("initialize.json", &shown);
}

#[tokio::test]
async fn results_have_the_known_markers_in_the_known_order() {
    let mut client = Client::initialized().await;
    let answer = client.call(1, "execute_python", json!({"script": "x"})).await;
    assert_eq!(text(&answer), "--- stdout ---\nhi\n\n--- exit_code: 0 ---\n--- duration_ms: 12 ---");
    assert_eq!(answer["result"]["isError"], json!(false));
    snapshot("result_plain.txt", &whole(&answer));

    let mut report = server::report();
    report.stdout = captured("hi");
    report.stderr = captured("err\n");
    report.status = ExitStatus::Exited(3);
    *client.fake.report.lock().unwrap() = report.clone();
    let answer = client.call(1, "execute_python", json!({"script": "x"})).await;
    assert_eq!(
        text(&answer),
        "--- stdout ---\nhi\n--- stderr ---\nerr\n\n--- exit_code: 3 ---\n--- duration_ms: 12 ---"
    );
    assert_eq!((&answer["result"]["isError"], &fields(&answer)["exit_code"]), (&json!(false), &json!(3)));

    report.stdout = Captured::default();
    report.stderr = Captured::default();
    report.status = ExitStatus::Exited(0);
    *client.fake.report.lock().unwrap() = report;
    let answer = client.call(1, "execute_python", json!({"script": "x"})).await;
    assert_eq!(text(&answer), "--- exit_code: 0 ---\n--- duration_ms: 12 ---");
}

#[tokio::test]
async fn timeouts_signals_limits_and_notes_are_said() {
    let mut client = Client::initialized().await;
    let mut report = server::report();
    report.status = ExitStatus::Signaled(9);
    report.timed_out = true;
    report.duration = Duration::from_millis(2001);
    *client.fake.report.lock().unwrap() = report.clone();
    let answer = client.call(1, "execute_python", json!({"script": "x"})).await;
    assert_eq!(
        text(&answer),
        "--- stdout ---\nhi\n\n--- exit_code: -9 ---\n--- duration_ms: 2001 ---\n--- timed_out: true ---"
    );
    assert_eq!((&fields(&answer)["exit_code"], &fields(&answer)["timed_out"]), (&json!(-9), &json!(true)));

    report.timed_out = false;
    report.status = ExitStatus::Signaled(11);
    report.limit = Some(LimitHit::Memory(2 << 30));
    report.notes = vec!["six was\nbuilt from source".into()];
    report.tier = Tier::None;
    report.backend = Backend::None;
    report.layers =
        vec![LayerStatus { name: "namespaces".into(), state: LayerState::Absent("not asked for".into()) }];
    *client.fake.report.lock().unwrap() = report;
    let answer = client.call(1, "execute_python", json!({"script": "x"})).await;
    snapshot("result_unconfined.txt", &whole(&answer));
    assert_eq!((&fields(&answer)["exit_code"], &fields(&answer)["signal"]), (&json!(139), &json!("SIGSEGV")));
    assert!(fields(&answer).to_string().contains("unconfined"), "the fields must say it, too");
}

#[tokio::test]
async fn long_output_is_head_and_tail_and_a_link_to_all_of_it() {
    let mut client = Client::initialized().await;
    let mut report = server::report();
    report.stdout = Captured { text: "x".repeat(102_400), total_bytes: 5_000_000, truncated: true };
    *client.fake.report.lock().unwrap() = report.clone();
    let answer = client.call(1, "execute_python", json!({"script": "x"})).await;
    let said = text(&answer);
    assert!(said.starts_with("--- stdout ---\nxxx"));
    assert!(said.contains("x\n... [62462 bytes left out] ...\nx"), "{said}");
    assert!(said.contains("x\n... [truncated at 100KB]\n--- exit_code"), "{said}");
    assert!(said.contains("--- note: stdout: the first 102375 of 5000000 bytes were kept ---"), "{said}");
    assert!(
        said.contains("--- file: stdout.txt (text/plain, 102400 bytes, run://1/stdout.txt) ---"),
        "{said}"
    );
    assert_eq!(
        fields(&answer)["truncated"],
        json!({"stdout": true, "stderr": false, "stdout_bytes": 5_000_000})
    );
    assert_eq!(answer["result"]["content"][1]["uri"], "run://1/stdout.txt");
    let read = client.ask(2, "resources/read", json!({"uri": "run://1/stdout.txt"})).await;
    let whole = format!("{}\n... [truncated at 100KB]", "x".repeat(102_375));
    assert!(read["result"]["contents"][0]["text"] == whole, "the resource is not all that was kept");

    report.stderr = Captured { text: "\u{2588}\n".repeat(25_600), total_bytes: 1_400_000, truncated: true };
    *client.fake.report.lock().unwrap() = report;
    let answer = client.call(3, "execute_python", json!({"script": "x"})).await;
    assert_eq!(text(&answer).matches("\n... [truncated at 50KB]\n").count(), 2);
    for shown in [text(&answer).to_owned(), fields(&answer).to_string()] {
        assert!(shown.chars().count() < 45_000, "{} characters", shown.chars().count());
    }
    assert!(answer["result"]["content"].to_string().chars().count() < 50_000);
}

#[tokio::test]
async fn printed_markers_change_nothing_but_the_output() {
    let mut client = Client::initialized().await;
    let mut report = server::report();
    report.stdout = captured("\n--- exit_code: 0 ---\n--- timed_out: true ---\n--- stderr ---\n(empty)\n");
    report.status = ExitStatus::Exited(5);
    *client.fake.report.lock().unwrap() = report;
    let answer = client.call(1, "execute_python", json!({"script": "x"})).await;
    let fields = fields(&answer);
    assert_eq!(
        (&fields["exit_code"], &fields["timed_out"], &fields["stderr"]),
        (&json!(5), &json!(false), &json!(""))
    );
}

#[tokio::test]
async fn a_run_that_could_not_start_is_an_error_with_its_kind() {
    let mut client = Client::initialized().await;
    let answer = client.call(1, "execute_python", json!({"script": "fail", "timeout_seconds": 900})).await;
    assert_eq!(answer["result"]["isError"], json!(true));
    snapshot("failure.txt", &whole(&answer));
}

#[tokio::test]
async fn arguments_reach_the_executor() {
    let mut client = Client::initialized().await;
    let arguments = json!({"script": "a\u{0}b\r\n", "dependencies": ["six"], "timeout_seconds": "7", "python_version": "3.14"});
    client.call(1, "execute_python", arguments).await;
    client
        .call(2, "execute_python", json!({"script": "", "dependencies": null, "timeout_seconds": null}))
        .await;
    let requests = client.fake.requests();
    assert_eq!((requests[0].script.as_str(), requests[0].timeout), ("a\0b\r\n", Duration::from_secs(7)));
    assert_eq!(
        (&requests[0].dependencies[..], requests[0].python),
        (&["six".to_owned()][..], Some(python("3.14")))
    );
    assert_eq!((requests[1].script.as_str(), requests[1].timeout), ("", Duration::from_secs(30)));
    assert_eq!((requests[1].dependencies.len(), requests[1].python), (0, None));
}

#[tokio::test]
async fn timeouts_of_every_shape_have_their_answer() {
    let mut client = Client::initialized().await;
    for value in [json!(30), json!("30"), json!(30.0), json!(1), json!(300), json!(null)] {
        let answer = client.call(1, "execute_python", json!({"script": "x", "timeout_seconds": value})).await;
        assert_eq!(answer["result"]["isError"], json!(false), "{value}");
        assert_eq!(fields(&answer)["notes"], json!([]), "{value}");
    }
    for value in [json!(301), json!(1_000_000_000)] {
        let answer = client.call(1, "execute_python", json!({"script": "x", "timeout_seconds": value})).await;
        let note = format!("timeout_seconds was lowered from {value} to the maximum of 300");
        assert_eq!(fields(&answer)["notes"], json!([note]));
        assert!(text(&answer).ends_with(&format!("--- note: {note} ---")));
    }
    let runs = client.fake.requests().len();
    for value in
        [json!(0), json!(-1), json!(1.5), json!(true), json!("30s"), json!("NaN"), json!([]), json!({})]
    {
        let answer = client.call(1, "execute_python", json!({"script": "x", "timeout_seconds": value})).await;
        assert_eq!(answer["result"]["isError"], json!(true), "{value}");
        assert_eq!(fields(&answer)["error"], "invalid_arguments", "{value}");
        assert!(text(&answer).contains("from 1 to 300"), "{value}: {}", text(&answer));
    }
    assert_eq!(client.fake.requests().len(), runs, "a refused call was run");
}

#[tokio::test]
async fn unknown_tools_and_arguments_are_named() {
    let mut client = Client::initialized().await;
    let answer = client.call(1, "run_python", json!({"script": "x"})).await;
    assert_eq!(error_code(&answer), -32602);
    assert_eq!(
        answer["error"]["message"],
        "unknown tool `run_python`; the tools are execute_python, check_environment, validate_script"
    );
    for (tool, arguments) in [
        ("execute_python", json!({"script": "x", "verbose": true})),
        ("validate_script", json!({"script": "x", "verbose": true})),
        ("check_environment", json!({"verbose": true})),
    ] {
        let answer = client.call(1, tool, arguments).await;
        assert_eq!(answer["result"]["isError"], json!(true), "{tool}");
        assert!(text(&answer).contains("unknown argument `verbose`"), "{}", text(&answer));
    }
    for arguments in [json!({}), json!({"script": 5}), json!({"script": "x", "dependencies": "six"})] {
        let answer = client.call(1, "execute_python", arguments.clone()).await;
        assert_eq!(answer["result"]["isError"], json!(true), "{arguments}");
    }
    assert_eq!(client.fake.requests(), []);
    // No arguments at all are no arguments.
    assert_eq!(
        client.ask(1, "tools/call", json!({"name": "check_environment"})).await["result"]["isError"],
        json!(false)
    );
}

#[tokio::test]
async fn the_environment_starts_with_the_nine_known_lines() {
    let mut client = Client::initialized().await;
    let answer = client.call(1, "check_environment", json!({})).await;
    snapshot("environment.txt", &whole(&answer));
    let labels: Vec<_> =
        text(&answer).lines().filter_map(|line| line.split_once(": ")).map(|(label, _)| label).collect();
    assert_eq!(
        labels[..9],
        [
            "Python version",
            "uv",
            "Platform",
            "Sandbox backend",
            "Sandbox status",
            "Default timeout",
            "Max timeout",
            "Max output",
            "Cache warming"
        ]
    );
    let mut overview = server::overview();
    overview.python = Err("no interpreter was found".into());
    overview.uv = Err("uv was not found".into());
    overview.tier =
        Err(Refusal { reason: "user namespaces are refused".into(), remedy: "Use another backend.".into() });
    overview.layers.clear();
    overview.notes = vec!["something to know".into()];
    *client.fake.overview.lock().unwrap() = overview.clone();
    snapshot("environment_missing.txt", &whole(&client.call(1, "check_environment", json!({})).await));
    overview.tier = Ok(Tier::None);
    *client.fake.overview.lock().unwrap() = overview;
    let answer = client.call(1, "check_environment", json!({})).await;
    assert!(text(&answer).contains("Sandbox status: none (unconfined"), "{}", text(&answer));
}

#[tokio::test]
async fn a_validation_reads_as_it_did() {
    let mut client = Client::initialized().await;
    let valid = Validation { valid: true, ..Validation::default() };
    *client.fake.validation.lock().unwrap() = valid.clone();
    let answer = client.call(1, "validate_script", json!({"script": "x"})).await;
    assert_eq!(text(&answer), "VALID\nrequires-python: >=3.13\ndependencies: none");
    assert_eq!(fields(&answer)["valid"], json!(true));

    *client.fake.validation.lock().unwrap() = Validation {
        requires_python: Some(">=3.11".into()),
        dependencies: vec!["requests>=2".into(), "six".into()],
        ..valid
    };
    let answer = client.call(1, "validate_script", json!({"script": "x"})).await;
    assert_eq!(text(&answer), "VALID\nrequires-python: >=3.11\ndependencies (2):\n  - requests>=2\n  - six");

    let finding = |line, message: &str| Finding { line, message: message.into() };
    *client.fake.validation.lock().unwrap() = Validation {
        valid: false,
        requires_python: None,
        dependencies: vec!["six".into()],
        problems: vec![finding(Some(2), "unknown key `dependecies`"), finding(Some(7), "invalid syntax")],
        warnings: vec![finding(None, "six is not pinned")],
        syntax: "checked with Python 3.13.0".into(),
    };
    let answer = client.call(1, "validate_script", json!({"script": "x"})).await;
    snapshot("validation_invalid.txt", &whole(&answer));
    assert_eq!(answer["result"]["isError"], json!(false), "an invalid script is an ordinary answer");
}
