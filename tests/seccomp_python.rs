//! Ordinary Python notices nothing: a real interpreter under the filters, one check for each thing it needs.
#![cfg(target_os = "linux")]
mod seccomp_support;

use mcp_python_exec_sandbox::seccomp::{Answer, Arch, Insn, Role, Sockets, Tier, embedded};
use seccomp_support::install;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

/// Its functions are the checks.
const CHECKS: &str = include_str!("seccomp_support/checks.py");

/// Runs the checks under a filter, without those named; gives what the interpreter printed.
fn run_checks(program: &'static [Insn], without: &str) -> String {
    let mut script = tempfile::Builder::new().suffix(".py").tempfile().expect("a temporary file");
    script.write_all(CHECKS.as_bytes()).expect("writable");
    let mut command = Command::new("python3");
    command.arg(script.path()).arg(without).stdin(Stdio::null());
    // SAFETY: `install` makes system calls only.
    unsafe { command.pre_exec(move || install(program)) };
    let output = command.output().expect("these tests need python3 on PATH, 3.9 or newer");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{}\n{stdout}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(stdout.ends_with("all passed\n"), "{stdout}");
    stdout
}

#[test]
fn python_notices_nothing_in_the_full_tier() {
    let passed = run_checks(embedded(Arch::native(), Role::Run, Tier::Full), "");
    assert_eq!(passed.lines().count(), 24, "{passed}");
}

#[test]
fn the_build_role_runs_what_the_run_role_runs() {
    run_checks(embedded(Arch::native(), Role::Build, Tier::Full), "");
}

/// The filter with "yes" as the answer to everything that it asks about, which is what the run's monitor says of the
/// run's own files, memory and signals.
fn answered(program: &[Insn]) -> &'static [Insn] {
    const RETURN: u16 = 0x06;
    let (asks, yes) = (Answer::Notify.code(), Answer::Allow.code());
    let answered = |insn: &Insn| match (insn.code, insn.k) {
        (RETURN, k) if k == asks => Insn { k: yes, ..*insn },
        _ => *insn,
    };
    Vec::leak(program.iter().map(answered).collect())
}

/// What the confined tier costs is listed here, and nothing else is lost.
#[test]
fn the_confined_tier_loses_what_it_says() {
    let confined = |sockets| answered(embedded(Arch::native(), Role::Run, Tier::Confined(sockets)));
    run_checks(confined(Sockets::All), "");
    run_checks(confined(Sockets::Local), "internet_sockets");
    let no_path_sockets = "local_sockets,pool_forkserver,manager";
    run_checks(confined(Sockets::Internet), no_path_sockets);
    run_checks(confined(Sockets::PairsOnly), &format!("{no_path_sockets},internet_sockets"));
}
