//! Every client's file, before and after; files that must not be touched; links.

use super::*;
use std::fs;
use std::path::Path;

const CLIENTS: [Client; 6] =
    [Client::Claude, Client::ClaudeDesktop, Client::Cursor, Client::Vscode, Client::Codex, Client::Gemini];

fn entry() -> Entry {
    Entry { command: "/opt/bin/server".to_owned(), args: vec!["--pool-size".to_owned(), "2".to_owned()] }
}

fn added(client: Client, text: &str) -> String {
    match client.add(text, &entry()).expect("it can be edited") {
        Edit::Text(text, Change::Added) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_new_file_is_written_as_the_client_reads_it() {
    let plain = "{\n  \"mcpServers\": {\n    \"python-sandbox\": {\n      \"command\": \"/opt/bin/server\",\n      \
                 \"args\": [\"--pool-size\", \"2\"]\n    }\n  }\n}\n";
    let typed = plain.replace("{\n      \"command\"", "{\n      \"type\": \"stdio\",\n      \"command\"");
    for client in CLIENTS {
        let expected = match client {
            Client::Claude => typed.clone(),
            Client::Vscode => typed.replace("mcpServers", "servers"),
            Client::Codex => {
                "[mcp_servers.python-sandbox]\ncommand = \"/opt/bin/server\"\nargs = [\"--pool-size\", \
                              \"2\"]\n"
                    .to_owned()
            }
            _ => plain.to_owned(),
        };
        assert_eq!(added(client, ""), expected, "{client:?}");
        assert_eq!(added(client, " \n"), expected, "{client:?}");
    }
}

#[test]
fn all_else_in_json_stays_with_comments_order_and_indentation() {
    let before = "\u{feff}// mine\n{\n\t\"theme\": \"dark\", /* nice */\n\t\"servers\": {\n\t\t// the other\n\t\t\"other\": \
                  {\"command\": \"x\"},\n\t},\n\t\"last\": 1e3\n}\n";
    let after = added(Client::Vscode, before);
    let expected = "\u{feff}// mine\n{\n\t\"theme\": \"dark\", /* nice */\n\t\"servers\": {\n\t\t// the \
                    other\n\t\t\"other\": {\"command\": \"x\"},\n\t\t\"python-sandbox\": {\n\t\t\t\"type\": \
                    \"stdio\",\n\t\t\t\"command\": \"/opt/bin/server\",\n\t\t\t\"args\": [\"--pool-size\", \
                    \"2\"],\n\t\t},\n\t},\n\t\"last\": 1e3\n}\n";
    assert_eq!(after, expected);
    assert_eq!(Client::Vscode.add(&after, &entry()), Ok(Edit::Nothing));
    assert_eq!(Client::Vscode.remove(&after), Ok(Edit::Text(before.to_owned(), Change::Removed)));
    assert_eq!(Client::Vscode.remove(before), Ok(Edit::Nothing));
}

#[test]
fn all_else_in_toml_stays_with_comments_and_order() {
    let before = "# mine\nmodel = \"best\" # of all\n\n[mcp_servers.other]\ncommand = 'x'\n\n[tui]\ntheme = \"dark\"\n";
    let after = added(Client::Codex, before);
    assert!(
        after.starts_with("# mine\nmodel = \"best\" # of all\n\n[mcp_servers.other]\ncommand = 'x'\n"),
        "{after}"
    );
    assert!(after.contains("\n[tui]\ntheme = \"dark\"\n"), "{after}");
    assert!(after.contains("[mcp_servers.python-sandbox]\ncommand = \"/opt/bin/server\"\n"), "{after}");
    assert_eq!(Client::Codex.add(&after, &entry()), Ok(Edit::Nothing));
    assert_eq!(Client::Codex.remove(&after), Ok(Edit::Text(before.to_owned(), Change::Removed)));
    assert_eq!(Client::Codex.remove(before), Ok(Edit::Nothing));
}

#[test]
fn an_older_entry_is_replaced_in_its_place() {
    for client in CLIENTS {
        let older = Entry { command: "old".to_owned(), args: Vec::new() };
        let Ok(Edit::Text(before, Change::Added)) = client.add("", &older) else { panic!("{client:?}") };
        let Ok(Edit::Text(after, Change::Replaced)) = client.add(&before, &entry()) else {
            panic!("{client:?}")
        };
        assert_eq!(after, added(client, ""), "{client:?}");
    }
}

#[test]
fn what_is_no_configuration_is_refused_with_the_reason() {
    let cases = [
        (Client::Cursor, "{\"a\": 1", "it is not valid JSON (Unterminated object on line 1 column 1)"),
        (Client::Cursor, "{a: 1}", "it is not valid JSON ("),
        (Client::Cursor, "[]", "it is not valid JSON (there is no object at its top)"),
        (Client::Cursor, "{\"mcpServers\": []}", "`mcpServers` in it is no table of servers"),
        (Client::Codex, "x = 1\ny", "it is not valid TOML (TOML parse error at line 2, column 2)"),
        (Client::Codex, "mcp_servers = 1", "`mcp_servers` in it is no table of servers"),
    ];
    for (client, text, reason) in cases {
        for result in [client.add(text, &entry()), client.remove(text)] {
            let said = result.expect_err(text).to_string();
            assert!(said.starts_with(reason), "{text}: {said}");
        }
    }
}

#[test]
fn each_client_keeps_its_file_where_it_looks_for_it() {
    let host: HostEnv = [("HOME", "/h")].into_iter().collect();
    let files = |host: &HostEnv, system| {
        CLIENTS.map(|client| client.file(host, system).expect("a home").display().to_string())
    };
    assert_eq!(
        files(&host, System::Xdg),
        [
            "/h/.claude.json",
            "/h/.config/Claude/claude_desktop_config.json",
            "/h/.cursor/mcp.json",
            "/h/.config/Code/User/mcp.json",
            "/h/.codex/config.toml",
            "/h/.gemini/settings.json"
        ]
    );
    assert_eq!(files(&host, System::Mac)[3], "/h/Library/Application Support/Code/User/mcp.json");
    let chosen =
        [("HOME", "/h"), ("CODEX_HOME", "/c"), ("CLAUDE_CONFIG_DIR", "/d"), ("XDG_CONFIG_HOME", "/x")];
    let files = files(&chosen.into_iter().collect(), System::Xdg);
    assert_eq!(
        [&files[0], &files[3], &files[4]],
        ["/d/.claude.json", "/x/Code/User/mcp.json", "/c/config.toml"]
    );
    assert_eq!(Client::Cursor.file(&HostEnv::default(), System::Xdg), None);
}

#[test]
fn links_carry_the_entry() {
    let entry = Entry { command: "server".to_owned(), args: Vec::new() };
    assert_eq!(
        link::install(Client::Cursor, &entry).as_deref(),
        Some(
            "cursor://anysphere.cursor-deeplink/mcp/install?name=python-sandbox&config=\
             eyJhcmdzIjpbXSwiY29tbWFuZCI6InNlcnZlciJ9"
        )
    );
    let link = link::install(Client::Vscode, &entry).expect("it has links");
    let text =
        percent_encoding::percent_decode_str(link.trim_start_matches("vscode:mcp/install?")).decode_utf8();
    let value: Value = serde_json::from_str(&text.expect("text")).expect("JSON");
    assert_eq!(value, json!({"name": "python-sandbox", "type": "stdio", "command": "server", "args": []}));
    assert_eq!(link::install(Client::Gemini, &entry), None);
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .expect("readable")
        .map(|file| file.expect("readable").file_name().into_string().expect("plain"))
        .collect();
    names.sort();
    names
}

#[cfg(unix)]
#[test]
fn a_file_is_replaced_in_one_step_with_its_permissions_and_a_backup() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = tempfile::tempdir().expect("a folder");
    let real = folder.path().join("real.json");
    let file = folder.path().join("mcp.json");
    fs::write(&real, "{\"a\": 1}").expect("writable");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).expect("ours");
    symlink("real.json", &file).expect("a link");
    let add = |text: &str| Client::Cursor.add(text, &entry());
    let written = rewrite(&file, add).expect("written").expect("changed");
    let backup = folder.path().canonicalize().expect("there").join("real.json.bak");
    assert_eq!(written, Written { change: Change::Added, backup: Some(backup.clone()) });
    assert!(file.is_symlink() && fs::read_to_string(&real).expect("there").contains("python-sandbox"));
    assert_eq!(fs::read_to_string(&backup).expect("there"), "{\"a\": 1}");
    for path in [&real, &backup] {
        assert_eq!(
            fs::metadata(path).expect("there").permissions().mode() & 0o777,
            0o640,
            "{}",
            path.display()
        );
    }
    assert_eq!(rewrite(&file, add).expect("read"), None);
    let removed = rewrite(&file, |text| Client::Cursor.remove(text)).expect("written").expect("changed");
    assert_eq!(removed.change, Change::Removed);
    assert_eq!(names(folder.path()), ["mcp.json", "real.json", "real.json.bak", "real.json.bak2"]);
}

#[test]
fn what_cannot_be_edited_stays_and_nothing_is_left_beside_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("mcp.json");
    for bytes in [&b"{\"a\": "[..], b"\xff\xfe{", b"not JSON at all"] {
        fs::write(&file, bytes).expect("writable");
        let error =
            rewrite(&file, |text| Client::Cursor.add(text, &entry())).expect_err("refused").to_string();
        assert!(error.contains("was left as it is: it is not "), "{error}");
        assert_eq!(fs::read(&file).expect("there"), bytes);
        assert_eq!(names(folder.path()), ["mcp.json"]);
    }
    let error = rewrite(folder.path(), |text| Client::Cursor.add(text, &entry())).expect_err("a folder");
    assert!(error.to_string().ends_with("it is no file"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_file_that_changes_meanwhile_is_not_overwritten() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("mcp.json");
    fs::write(&file, "{}").expect("writable");
    let error = rewrite(&file, |text| {
        fs::write(&file, "{\"new\": 1}").expect("writable");
        Client::Cursor.add(text, &entry())
    });
    assert!(error.expect_err("refused").to_string().contains("meanwhile"));
    assert_eq!(fs::read_to_string(&file).expect("there"), "{\"new\": 1}");
    // A dangling link is neither followed nor replaced.
    let link = folder.path().join("link.json");
    std::os::unix::fs::symlink("nowhere/else.json", &link).expect("a link");
    rewrite(&link, |text| Client::Cursor.add(text, &entry())).expect_err("refused");
    assert!(link.is_symlink());
}
