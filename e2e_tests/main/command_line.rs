//! What a person types.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::backend::differs;
use crate::client::{binary, common_flags};

fn run(args: &[&str], input: &str) -> Output {
    let mut child = Command::new(binary())
        .args(args)
        .args(common_flags(args))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn run_passes_streams_and_exit_code_through() {
    let output = run(&["run", "-"], "import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(7)");
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("out\n", Some(7)), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).ends_with("err\n"));
}

#[test]
fn run_ends_with_124_after_its_timeout() {
    let output = run(&["run", "-", "--timeout", "3"], "import time\nprint('begun')\ntime.sleep(60)");
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("begun\n", Some(124)), "{output:?}");
}

#[test]
fn run_ends_with_125_where_nothing_was_run() {
    for (args, input) in [
        (&["run", "-"][..], ""),
        (&["run", "/no/such/file"][..], ""),
        (&["run", "-", "--with", "-e ."][..], "pass"),
    ] {
        let output = run(args, input);
        assert_eq!(output.status.code(), Some(125), "{args:?}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: "), "{output:?}");
    }
}

#[test]
fn explain_prints_the_plan_and_runs_nothing() {
    let output = run(&["run", "-", "--explain"], "print('RAN')");
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a plan in JSON");
    if differs("`run --explain`") {
        assert!(plan["plan"]["volumes"].is_array() && plan["command"][1] == "run", "{plan}");
        return;
    }
    assert!(plan["isolation"]["root"].is_array() && plan["landlock"].is_object(), "{plan}");
}

#[test]
fn validate_tells_by_its_exit_code() {
    let valid = run(&["validate", "-"], "print(1)");
    assert_eq!((valid.status.code(), stdout(&valid).lines().next()), (Some(0), Some("valid")), "{valid:?}");
    let wrong = run(&["validate", "-"], "# /// script\n# dependencies = [1]\n# ///\nprint(\n");
    assert_eq!((wrong.status.code(), stdout(&wrong).lines().next()), (Some(1), Some("invalid")), "{wrong:?}");
    assert!(stdout(&wrong).contains("line 2") && stdout(&wrong).contains("line 4"), "{}", stdout(&wrong));
}

#[test]
fn what_cannot_be_given_is_refused_at_start() {
    let docker = run(&["--sandbox-backend", "docker", "--require-sandbox", "full"], "");
    assert_eq!(docker.status.code(), Some(125), "{docker:?}");
    let none = run(&["--sandbox-backend", "none", "--require-sandbox", "confined"], "");
    assert!(String::from_utf8_lossy(&none.stderr).contains("--require-sandbox confined"), "{none:?}");
    assert_eq!(run(&["--no-such-flag"], "").status.code(), Some(2));
}

#[test]
fn figures_of_a_run_are_saved_and_nothing_else_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let figures = folder.path().join("figures");
    let script = "import os\nos.mkdir('output')\nopen('output/plot.png', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n')\n\
                  open('output/run.sh', 'w').write('evil')";
    let output = run(&["run", "-", "--save-figures", figures.to_str().expect("plain")], script);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("hands no files over") {
        crate::skipped::skipped("figures of a run: this tier hands no files over");
        return;
    }
    assert!(said.contains(&format!("saved: {}", figures.join("plot.png").display())), "{said}");
    assert_eq!(std::fs::read_dir(&figures).expect("made").count(), 1);
}
