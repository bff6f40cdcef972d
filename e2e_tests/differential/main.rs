//! A script cannot tell whether its interpreter has waited for it: hundreds of small scripts give the same output, the
//! same errors and the same end in a sandbox that waited, in one that was built for them, and, where they do not look at
//! the machine itself, started directly by the environment's interpreter.

#![cfg(target_os = "linux")]

mod cases;
mod crowd;
mod server;
#[path = "../common/skipped.rs"]
mod skipped;
mod waiting;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use cases::Case;
use server::{Ended, Server};

static CASES: LazyLock<Vec<Case>> = LazyLock::new(cases::all);

#[test]
fn there_are_enough_of_them_and_each_has_its_name() {
    let mut names: Vec<&str> = CASES.iter().map(|case| case.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), CASES.len(), "a name stands twice");
    assert!(names.len() > 400, "{}", names.len());
}

#[test]
fn a_waiting_interpreter_is_like_one_that_was_just_started() {
    waiting_is_like_just_started(&CASES);
}

#[test]
fn programs_of_the_case_kit_cannot_tell_either() {
    let kit = std::env::var_os("CASES").map(PathBuf::from);
    let kit = kit.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/cases"));
    if !kit.is_dir() {
        skipped::skipped(format_args!("{} is not there", kit.display()));
        return;
    }
    let cases = cases::of_the_kit(&kit);
    assert!(cases.len() >= 30 && cases.iter().any(|case| case.packages), "{}", cases.len());
    waiting_is_like_just_started(&cases);
}

fn waiting_is_like_just_started(cases: &[Case]) {
    let mut cold = Server::start(&["--pool-size", "0"]);
    let mut pooled = Server::start(&["--pool-size", "4"]);
    pooled.run("pass");
    let mut differences = Vec::new();
    for case in cases {
        if case.packages {
            // The first time they are fetched.
            let ended = cold.run_with_timeout(&case.script, 300);
            if ended.refused {
                skipped::skipped(format_args!("{}: its packages cannot be had: {}", case.name, ended.stderr));
                continue;
            }
        }
        let expected = cold.run_with_timeout(&case.script, case.seconds).without_chance();
        let got = pooled.run_waiting_for(&case.script, case.seconds).map(Ended::without_chance);
        if got.as_ref() != Some(&expected) {
            differences.push(difference(&case.name, &expected, got.as_ref()));
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn a_sandboxed_script_does_what_a_direct_start_does() {
    let mut cold = Server::start(&["--pool-size", "0"]);
    let python = cold.run("import sys; print(sys.executable)").stdout.trim().to_owned();
    let mut differences = Vec::new();
    for case in CASES.iter().filter(|case| case.portable) {
        let sandboxed = cold.run(&case.script).without_chance();
        if sandboxed.refused {
            continue;
        }
        let direct = start_directly(Path::new(&python), &case.script).without_chance();
        if direct != sandboxed {
            differences.push(difference(&case.name, &direct, Some(&sandboxed)));
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

fn difference(name: &str, expected: &Ended, got: Option<&Ended>) -> String {
    match got {
        Some(got) => format!("== {name}\n-- expected {}\n-- got {}", shown(expected), shown(got)),
        None => format!("== {name}: no waiting sandbox took it"),
    }
}

fn shown(ended: &Ended) -> String {
    let cut = |text: &str| text.chars().take(1500).collect::<String>();
    format!("{}\n{}\n(stderr)\n{}", ended.code, cut(&ended.stdout), cut(&ended.stderr))
}

/// What `python script.py` does in a folder of its own, with the variables that a sandbox has.
fn start_directly(python: &Path, script: &str) -> Ended {
    let place = tempfile::tempdir().expect("a temporary folder");
    let place = place.path().canonicalize().expect("it is there");
    let (work, home) = (place.join("work"), place.join("home"));
    std::fs::create_dir_all(&work).expect("made");
    std::fs::create_dir_all(&home).expect("made");
    let file = work.join("script.py");
    std::fs::write(&file, script).expect("written");
    let root = python.parent().and_then(Path::parent).expect("an environment");
    // A sandbox starts with every signal as it is by default; the caller may have been started with some ignored.
    let output = Command::new("env")
        .args(["--default-signal"])
        .arg(python)
        .arg(&file)
        .current_dir(&work)
        .env_clear()
        .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", root.join("bin").display()))
        .env("VIRTUAL_ENV", root)
        .env("HOME", &home)
        .envs([("LANG", "C.UTF-8"), ("PYTHONUNBUFFERED", "1"), ("TMPDIR", "/tmp"), ("SHELL", "/bin/sh")])
        .stdin(Stdio::null())
        .output()
        .expect("the interpreter starts");
    let text = |bytes: &[u8]| {
        String::from_utf8_lossy(bytes)
            .replace(&work.display().to_string(), "/work")
            .replace(&home.display().to_string(), "/home/sandbox")
    };
    let code = match std::os::unix::process::ExitStatusExt::signal(&output.status) {
        Some(signal) => i64::from(128 + signal),
        None => i64::from(output.status.code().unwrap_or(-1)),
    };
    Ended { stdout: text(&output.stdout), stderr: text(&output.stderr), code, refused: false }
}
