//! What a person types that needs no sandbox: the built binary with a home folder of its own.
#![cfg(unix)]
#![allow(clippy::print_stdout, reason = "tests speak to whoever runs them")]

mod config;
mod documents;
mod install;
mod manual;
mod packages;
#[path = "../../e2e_tests/common/skipped.rs"]
mod skipped;

use std::path::Path;
use std::process::{Command, Output};

/// The program with nothing of the user's environment but what `home` holds.
fn program(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-python-exec-sandbox"));
    command.env_clear().env("HOME", home).env("PATH", "/usr/bin:/bin").current_dir(home);
    command
}

/// Runs it to its end.
fn run(home: &Path, args: &[&str]) -> Output {
    program(home).args(args).output().expect("it starts")
}

/// Standard output as text.
fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// Standard error as text.
fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}
