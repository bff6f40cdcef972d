//! Completions and the manual page.

use std::process::Command;

use crate::{run, stdout};

#[test]
fn completions_know_every_subcommand_and_are_sound() {
    let home = tempfile::tempdir().expect("a folder");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let printed = run(home.path(), &["completions", shell]);
        let text = stdout(&printed);
        assert!(printed.status.success() && printed.stderr.is_empty(), "{printed:?}");
        for known in ["install", "uninstall", "memory-limit", "require-sandbox", "outbound"] {
            assert!(text.contains(known), "{known} is missing for {shell}");
        }
        let file = home.path().join(shell);
        std::fs::write(&file, &text).expect("writable");
        if ["bash", "zsh", "fish"].contains(&shell) {
            match Command::new(shell).arg("-n").arg(&file).output() {
                Ok(read) => assert!(read.status.success(), "{read:?}"),
                Err(error) => crate::skipped::skipped(format_args!("{shell} reads its completions: {error}")),
            }
        }
    }
}

/// `script` gives a program a terminal.
#[test]
fn a_terminal_shows_what_a_pipe_does() {
    let home = tempfile::tempdir().expect("a folder");
    let piped = stdout(&run(home.path(), &["config", "show"]));
    let program = env!("CARGO_BIN_EXE_mcp-python-exec-sandbox");
    let shown = Command::new("script")
        .args(["-qec", &format!("{program} config show"), "/dev/null"])
        .env_clear()
        .envs([
            ("HOME", home.path().as_os_str()),
            ("PATH", "/usr/bin:/bin".as_ref()),
            ("TERM", "xterm".as_ref()),
        ])
        .stdin(std::process::Stdio::null())
        .output();
    match shown {
        Ok(shown) => {
            assert_eq!((shown.status.code(), stdout(&shown).replace("\r\n", "\n")), (Some(0), piped));
        }
        Err(error) => {
            crate::skipped::skipped(format_args!("on a terminal: script cannot be started: {error}"));
        }
    }
}

#[test]
fn the_manual_page_has_every_flag_and_the_exit_codes() {
    let home = tempfile::tempdir().expect("a folder");
    let page = stdout(&run(home.path(), &["man"])).replace("\\-", "-");
    assert!(page.contains(".TH mcp-python-exec-sandbox 1"), "{page}");
    for said in ["--memory-limit", "--audit-log", "Exit codes: 0 done", "run(1)"] {
        assert!(page.contains(said), "{said} is missing: {page}");
    }
}
