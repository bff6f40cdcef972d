//! `config show`, and a configuration file that is wrong.

use std::fs;

use crate::{program, run, stderr, stdout};

#[test]
fn what_is_shown_says_its_origin_and_is_a_configuration_itself() {
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join(".config/mcp-python-exec-sandbox");
    fs::create_dir_all(&folder).expect("writable");
    fs::write(folder.join("config.toml"), "network = \"none\"\nmemory-limit = \"1G\"\n").expect("writable");
    let shown = program(home.path())
        .env("MCP_PYTHON_EXEC_SANDBOX_MAX_OPEN_FILES", "99")
        .args(["config", "show", "--max-timeout", "77"])
        .output()
        .expect("it starts");
    assert!(shown.status.success(), "{shown:?}");
    let text = stdout(&shown);
    for (setting, origin) in [
        ("network = \"none\"", "# file, line 1"),
        ("memory-limit = \"1G\"", "# file, line 2"),
        ("max-open-files = 99", "# environment, MCP_PYTHON_EXEC_SANDBOX_MAX_OPEN_FILES"),
        ("max-timeout = 77", "# flag"),
        ("tools = [\"execute\", \"sandbox\"]", "# default"),
        ("no-build = false", "# default"),
        ("# docker-image =", "# default"),
    ] {
        let line = text.lines().find(|line| line.starts_with(setting));
        assert!(line.is_some_and(|line| line.ends_with(&format!("  {origin}"))), "{setting}: {text}");
    }
    let again = home.path().join("again.toml");
    fs::write(&again, &text).expect("writable");
    let repeated = run(home.path(), &["--config", "again.toml", "config", "show"]);
    let plain = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.split("  #").next().unwrap_or_default().trim_end().to_owned()).collect()
    };
    assert_eq!(plain(&stdout(&repeated)), plain(&text));
    assert!(plain(&text).len() > 20, "{text}");
}

#[test]
fn a_wrong_file_stops_every_command_with_its_line() {
    let home = tempfile::tempdir().expect("a folder");
    fs::write(home.path().join("c.toml"), "pool-size = 1\nnet-work = \"none\"\n").expect("writable");
    for command in [&["config", "show"][..], &["doctor"], &["run", "-"], &[]] {
        let refused = run(home.path(), &[&["--config", "c.toml"], command].concat());
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert_eq!(stderr(&refused), "error: c.toml:2: `net-work` is no setting; did you mean `network`?\n");
    }
    let missing = run(home.path(), &["--config", "none.toml", "config", "show"]);
    assert!(stderr(&missing).contains("none.toml cannot be read"), "{missing:?}");
}
