//! The documents say what the program does: flags, subcommands and exit codes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use clap::CommandFactory;
use mcp_python_exec_sandbox::cli::Cli;
use mcp_python_exec_sandbox::install::{Client, Entry, link};

fn document(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).expect("it is there")
}

/// The part of a document below a heading, up to the next one of its kind.
fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let start = text.find(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no heading {heading}"));
    let rest = &text[start + 1..];
    rest[3..].find("\n## ").map_or(rest, |end| &rest[..end + 3])
}

/// Every flag that stands in the first column of a table.
fn flags_in_table(text: &str) -> BTreeSet<String> {
    let cells =
        text.lines().filter_map(|line| line.strip_prefix("| `--").and_then(|line| line.split(" | ").next()));
    cells
        .flat_map(|cell| format!("--{cell}").split('`').map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|piece| {
            piece.strip_prefix("--").map(|flag| flag.split(' ').next().unwrap_or_default().to_owned())
        })
        .collect()
}

#[test]
fn the_table_of_flags_is_that_of_the_program() {
    let known: BTreeSet<String> =
        Cli::command().get_arguments().filter_map(|flag| flag.get_long().map(str::to_owned)).collect();
    assert_eq!(flags_in_table(section(&document("README.md"), "Flags")), known);
}

#[test]
fn every_default_in_the_table_is_the_programs() {
    let readme = document("README.md");
    for flag in Cli::command().get_arguments() {
        let (Some(name), [default]) = (flag.get_long(), flag.get_default_values()) else { continue };
        let default = default.to_str().expect("text");
        if flag.get_action().takes_values() && name != "tools" {
            let row = readme
                .lines()
                .find(|line| line.starts_with("| `--") && line.contains(&format!("`--{name} ")));
            let row = row.unwrap_or_else(|| panic!("no row for --{name}"));
            let cell = row.replace("\\|", "/");
            let cell = cell.split(" | ").nth(1).unwrap_or_default();
            assert!(cell.split([',', ' ', '`']).any(|word| word == default), "--{name} is {default}: {row}");
        }
    }
}

#[test]
fn every_subcommand_stands_in_the_readme() {
    let readme = document("README.md");
    let commands = section(&readme, "Commands");
    for command in Cli::command().get_subcommands() {
        let name = command.get_name();
        let row = ["`", " "].iter().any(|end| commands.contains(&format!("| `{name}{end}")));
        assert!(row, "{name} is not in the table of commands");
    }
}

#[test]
fn every_flag_that_a_document_shows_exists() {
    let mut known: BTreeSet<String> = ["help", "version"].map(str::to_owned).into();
    collect(&Cli::command(), &mut known);
    let readme = document("README.md");
    let ours = readme
        .lines()
        .filter(|line| line.starts_with("$ mcp-python-exec-sandbox ") || line.starts_with("| `"));
    for line in ours {
        for piece in
            line.split(['`', ' ', '|', '(', ')', ',', '\\']).filter_map(|word| word.strip_prefix("--"))
        {
            let name = piece.split(['=', '.', ';', ':']).next().unwrap_or_default();
            assert!(name.is_empty() || known.contains(name), "--{name} in {line}");
        }
    }
}

fn collect(command: &clap::Command, known: &mut BTreeSet<String>) {
    known.extend(command.get_arguments().filter_map(|flag| flag.get_long().map(str::to_owned)));
    for below in command.get_subcommands() {
        collect(below, known);
    }
}

#[test]
fn the_install_links_are_those_that_the_program_makes() {
    let entry = Entry { command: env!("CARGO_PKG_NAME").to_owned(), args: Vec::new() };
    let readme = document("README.md");
    for client in [Client::Cursor, Client::Vscode] {
        let link = link::install(client, &entry).expect("it has links");
        assert!(readme.lines().any(|line| line == link), "{link} is not in the README");
    }
}

#[test]
fn every_dependency_has_its_reason() {
    let manifest: toml::Table = document("Cargo.toml").parse().expect("TOML");
    let contributing = document("CONTRIBUTING.md");
    let reasons = section(&contributing, "Dependencies, and why each");
    let rows: Vec<&str> =
        reasons.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next()).collect();
    let mut tables = vec![&manifest["dependencies"]];
    for target in manifest["target"].as_table().expect("a table").values() {
        tables.extend(["dependencies", "dev-dependencies"].iter().filter_map(|kind| target.get(kind)));
    }
    for name in tables.iter().flat_map(|table| table.as_table().expect("a table").keys()) {
        let told = rows.iter().any(|row| row.split([',', ' ', '(']).any(|word| word == name));
        assert!(told, "CONTRIBUTING.md does not say why {name} is needed");
    }
}

/// What tests are told by their environment, the development container has to tell them.
#[test]
fn the_development_container_has_what_tests_ask_for() {
    let dockerfile = document(".devcontainer/Dockerfile");
    let settings = document(".devcontainer/devcontainer.json");
    for needed in ["E2E_PYTHON=", "TEST_USER=", "node", "npm", "bubblewrap", "docker.io", "iproute2", "zstd"]
    {
        assert!(dockerfile.contains(needed), "{needed}");
    }
    assert!(
        settings.contains("--docker-image mcp-python-exec-sandbox:test image build"),
        "no image for tests"
    );
    assert!(settings.contains("\"privileged\": true"));
}
