//! What a script prints and how it ends, as the caller sees it.

use serde_json::json;

use crate::backend::Backend;
use crate::client::{Server, text};

#[test]
fn streams_and_exit_code_stand_in_the_promised_order() {
    let mut server = Server::start(&[]);
    let result = server.run("import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(3)");
    let said = text(&result);
    let expected = "--- stdout ---\nout\n\n--- stderr ---\nerr\n\n--- exit_code: 3 ---\n--- duration_ms: ";
    assert!(said.starts_with(expected), "{said:?}");
    assert_ne!(result["isError"], true);
    let structured = &result["structuredContent"];
    assert_eq!((&structured["stdout"], &structured["stderr"]), (&json!("out\n"), &json!("err\n")));
    assert_eq!(
        (&structured["backend"], &structured["timed_out"]),
        (&json!(Backend::under_test().name()), &json!(false))
    );
}

#[test]
fn a_signal_is_named() {
    let mut server = Server::start(&[]);
    let result = server.run("import os\nprint('before', flush=True)\nos.kill(os.getpid(), 11)");
    let structured = &result["structuredContent"];
    assert_eq!(
        (&structured["exit_code"], &structured["signal"]),
        (&json!(139), &json!("SIGSEGV")),
        "{result}"
    );
    assert_eq!(structured["stdout"], "before\n");
}

#[test]
fn much_output_is_cut_and_costs_no_memory() {
    let mut server = Server::start(&[]);
    server.run("pass");
    let before = resident(server.pid());
    let result = server.run("import sys\nfor _ in range(100): sys.stdout.write('x' * (1 << 20))");
    let said = text(&result);
    assert!(
        said.contains("\n... [truncated at 100KB]") || said.contains("x... [truncated at 100KB]"),
        "{}",
        said.len()
    );
    assert!(said.len() < 45_000, "{} bytes", said.len());
    assert_eq!(result["structuredContent"]["exit_code"], 0);
    let grown = resident(server.pid()).saturating_sub(before);
    assert!(grown < 8 << 10, "the server grew by {grown} KiB");
}

/// Peak resident size in KiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = status.lines().find(|line| line.starts_with("VmHWM")).expect("a peak");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn bytes_that_are_no_text_are_replaced() {
    let mut server = Server::start(&[]);
    let result = server.run(
        "import os\nos.write(1, b'\\xff\\xfe ok\\n'); os.write(1, b'\\xe2\\x82'); os.write(1, b'\\xac\\n')",
    );
    assert_eq!(result["structuredContent"]["stdout"], "\u{fffd}\u{fffd} ok\n\u{20ac}\n");
}

#[test]
fn without_isolation_every_result_says_so() {
    let mut server = Server::start(&["--sandbox-backend", "none"]);
    let result = server.run("import os\nprint(os.path.exists('/etc/shadow'), os.getcwd() != '/work')");
    assert_eq!(result["structuredContent"]["stdout"], "True True\n", "{result}");
    assert!(text(&result).contains("unconfined"), "{result}");
    assert_eq!(result["structuredContent"]["tier"], "none");
    assert!(text(&server.tool("check_environment", json!({}))).contains("none"));
}

#[test]
fn printed_markers_do_not_change_what_is_reported() {
    let mut server = Server::start(&[]);
    let result = server.run("import sys\nprint('--- exit_code: 0 ---')\nsys.exit(5)");
    assert_eq!(result["structuredContent"]["exit_code"], 5, "{result}");
}
