//! What a script says about itself in its block.
//!
//! Every key is looked at and every mistake is reported with its line of the script. The specification knows
//! `requires-python`, `dependencies` and `tool`: a key that is one of them misspelled is an error, since what it says
//! would be lost, and any other is a warning.
//! Must never know: how dependencies are resolved, or which Python runs the script.

use std::ops::Range;

use pep440_rs::VersionSpecifiers;
use toml::de::DeTable;

use super::block::Block;
use super::nearest::nearest;
use super::problem::{ProblemKind, Problems, quoted};
use super::requirement::Requirement;
use super::requires_python;
use super::toml_reader::{Reader, Value};
use super::tool_uv::{self, ToolUv};

const KEYS: [&str; 3] = ["requires-python", "dependencies", "tool"];

/// What other tools call these keys.
const SYNONYMS: [(&str, &str); 8] = [
    ("python", "requires-python"),
    ("python-requires", "requires-python"),
    ("python_requires", "requires-python"),
    ("python-version", "requires-python"),
    ("deps", "dependencies"),
    ("requires", "dependencies"),
    ("requirements", "dependencies"),
    ("packages", "dependencies"),
];

/// The metadata of a script. Of a block with mistakes it holds what could be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Accepted versions of Python.
    pub requires_python: Option<VersionSpecifiers>,
    /// The inline dependencies, in the order of the block.
    pub dependencies: Vec<Requirement>,
    /// The settings for the installer.
    pub uv: ToolUv,
}

/// Reads the block.
pub fn read(block: &Block, problems: &mut Problems) -> Metadata {
    let mut metadata = Metadata::default();
    let (document, errors) = DeTable::parse_recoverable(block.toml());
    if !errors.is_empty() {
        report_toml(block, &errors, problems);
        return metadata;
    }
    let mut reader = Reader::new(block, problems);
    for (key, value) in document.get_ref() {
        match key.get_ref().as_ref() {
            "requires-python" => metadata.requires_python = read_requires_python(&mut reader, value),
            "dependencies" => metadata.dependencies = reader.requirements("dependencies", value),
            "tool" => metadata.uv = read_tool(&mut reader, value),
            other => report_unknown(&mut reader, &key.span(), other, value),
        }
    }
    metadata
}

fn read_requires_python(reader: &mut Reader<'_>, value: &Value<'_>) -> Option<VersionSpecifiers> {
    let text = reader.string("requires-python", value)?;
    match requires_python::parse(text) {
        Ok(read) => {
            if let Some(warning) = read.warning {
                reader.warning(&value.span(), ProblemKind::RequiresPython, warning);
            }
            Some(read.specifiers)
        }
        Err(error) => {
            reader.error(&value.span(), ProblemKind::RequiresPython, error.to_string());
            None
        }
    }
}

fn read_tool(reader: &mut Reader<'_>, value: &Value<'_>) -> ToolUv {
    let Some(tools) = reader.table("tool", value) else { return ToolUv::default() };
    let Some(settings) = tools.get("uv") else { return ToolUv::default() };
    match reader.table("tool.uv", settings) {
        Some(table) => tool_uv::read(reader, table),
        None => ToolUv::default(),
    }
}

fn report_unknown(reader: &mut Reader<'_>, span: &Range<usize>, key: &str, value: &Value<'_>) {
    let plain = key.to_ascii_lowercase();
    let synonym = SYNONYMS.iter().find(|(other, _)| *other == plain).map(|(_, meant)| *meant);
    if let Some(meant) = synonym.or_else(|| nearest(key, &KEYS)) {
        let message = format!("unknown key {}: did you mean `{meant}`?", quoted(key));
        reader.error(span, ProblemKind::UnknownKey, message);
        return;
    }
    let lost =
        value.get_ref().as_table().and_then(|table| KEYS.iter().find(|name| table.contains_key(**name)));
    if let Some(name) = lost {
        let message = format!("`{name}` inside {} is not read: move it to the top of the block", quoted(key));
        reader.error(span, ProblemKind::UnknownKey, message);
        return;
    }
    let message = format!(
        "unknown key {} has no effect: a block holds `requires-python`, `dependencies` and `[tool.*]` tables",
        quoted(key)
    );
    reader.warning(span, ProblemKind::UnknownKey, message);
}

/// Reports TOML errors, one for each line: the first on a line explains those after it.
fn report_toml(block: &Block, errors: &[toml::de::Error], problems: &mut Problems) {
    let mut found: Vec<_> = errors
        .iter()
        .map(|error| (error.span().map_or(0, |span| span.start), one_line(error.message())))
        .map(|(offset, message)| (block.position(offset), message))
        .collect();
    found.sort_by_key(|(at, _)| (at.line, at.column));
    found.dedup_by_key(|(at, _)| at.line);
    let mut hint = inner_closing(block).unwrap_or_default();
    for (at, message) in found {
        let message = format!("column {}: the metadata block is not valid TOML: {message}{hint}", at.column);
        problems.error(Some(at.line), ProblemKind::Toml, message);
        hint.clear();
    }
}

/// Says how far the block runs, where a closing line was read as content.
fn inner_closing(block: &Block) -> Option<String> {
    block.toml().lines().any(|line| line == "///").then(|| {
        format!(
            "; the block opened on line {} runs to its last closing line, {}, because no line without `#` ends it before",
            block.opening(),
            block.closing()
        )
    })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
