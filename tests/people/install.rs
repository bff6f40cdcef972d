//! `install` and `uninstall` as a person types them.

use std::fs;

use serde_json::Value;

use crate::{run, stderr, stdout};

const CLIENTS: [(&str, &str); 6] = [
    ("claude", ".claude.json"),
    ("claude-desktop", ".config/Claude/claude_desktop_config.json"),
    ("cursor", ".cursor/mcp.json"),
    ("vscode", ".config/Code/User/mcp.json"),
    ("codex", ".codex/config.toml"),
    ("gemini", ".gemini/settings.json"),
];

#[test]
fn every_client_gets_its_entry_and_loses_it_again() {
    for (client, file) in CLIENTS {
        let home = tempfile::tempdir().expect("a folder");
        let file = home.path().join(file);
        let done = run(home.path(), &["install", client, "--", "--pool-size", "2"]);
        assert!(done.status.success() && done.stdout.is_empty(), "{done:?}");
        let text = fs::read_to_string(&file).expect("it was written");
        let program = env!("CARGO_BIN_EXE_mcp-python-exec-sandbox");
        assert!(
            text.contains(&format!("\"{program}\"")) && text.contains("[\"--pool-size\", \"2\"]"),
            "{text}"
        );
        assert!(
            stderr(&run(home.path(), &["install", client, "--", "--pool-size", "2"]))
                .contains("nothing to do")
        );
        let gone = run(home.path(), &["uninstall", client]);
        assert!(gone.status.success() && stderr(&gone).contains("python-sandbox removed from"), "{gone:?}");
        assert!(!fs::read_to_string(&file).expect("there").contains("python-sandbox"));
    }
}

#[test]
fn what_is_printed_changes_nothing_and_can_be_pasted() {
    let home = tempfile::tempdir().expect("a folder");
    for (client, _) in CLIENTS {
        let shown = run(home.path(), &["install", client, "--print"]);
        assert!(shown.status.success(), "{shown:?}");
        let readable = match client {
            "codex" => stdout(&shown).parse::<toml::Table>().is_ok(),
            _ => serde_json::from_str::<Value>(&stdout(&shown)).is_ok(),
        };
        assert!(readable, "{shown:?}");
        let link = ["cursor://", "vscode:"].iter().any(|scheme| stderr(&shown).contains(scheme));
        assert_eq!(link, ["cursor", "vscode"].contains(&client), "{client}");
    }
    assert_eq!(fs::read_dir(home.path()).expect("readable").count(), 0);
}

#[test]
fn a_configuration_that_is_not_json_is_left_untouched_and_said() {
    let home = tempfile::tempdir().expect("a folder");
    let file = home.path().join(".claude.json");
    fs::write(&file, "{ half").expect("writable");
    let refused = run(home.path(), &["install", "claude"]);
    assert_eq!(refused.status.code(), Some(125));
    assert!(stderr(&refused).contains(".claude.json was left as it is: it is not valid JSON"), "{refused:?}");
    assert_eq!(fs::read_to_string(&file).expect("there"), "{ half");
    assert_eq!(fs::read_dir(home.path()).expect("readable").count(), 1);
}

#[test]
fn flags_that_the_server_would_not_take_are_not_written() {
    let home = tempfile::tempdir().expect("a folder");
    for (flags, reason) in [
        (&["--pool-sise", "2"][..], "--pool-size"),
        (&["--memory-limit", "0"], "--memory-limit"),
        (&["doctor"], "without a subcommand"),
        (&["--default-timeout", "900"], "--max-timeout"),
    ] {
        let refused = run(home.path(), &[&["install", "cursor", "--"], flags].concat());
        assert_eq!(refused.status.code(), Some(125), "{flags:?}");
        assert!(stderr(&refused).contains(reason), "{refused:?}");
    }
    assert_eq!(fs::read_dir(home.path()).expect("readable").count(), 0);
}

#[test]
fn flags_in_the_wrong_place_are_not_lost_without_a_word() {
    let home = tempfile::tempdir().expect("a folder");
    let refused = run(home.path(), &["install", "cursor", "--pool-size", "2"]);
    assert_eq!(refused.status.code(), Some(125), "{refused:?}");
    assert!(stderr(&refused).contains("install ... -- --pool-size"), "{refused:?}");
    assert_eq!(fs::read_dir(home.path()).expect("readable").count(), 0);
}
