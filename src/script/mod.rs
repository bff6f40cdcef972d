//! What a script says about itself: inline metadata (PEP 723), its requirements (PEP 508), and the merge with those of
//! a call.
//!
//! [`read`] looks at everything and runs nothing; all problems are collected, each with its line of the script. The
//! source text is never changed.
//!
//! Architecture invariant: this room is pure. It reads no file, starts no process, knows no clock, and imports no other
//! room of the crate.

pub mod block;
pub mod coding;
mod lines;
mod literals;
mod marker;
pub mod merge;
pub mod metadata;
mod nearest;
pub(crate) use nearest::nearest;
pub mod problem;
pub mod requirement;
pub mod requires_python;
pub mod source;
mod toml_reader;
pub mod tool_uv;
pub mod url;

pub use metadata::Metadata;
pub use problem::{Problem, ProblemKind, Severity};
pub use requirement::Requirement;
pub use requires_python::PythonVersion;
pub use source::Script;

use problem::{Problems, quoted};
use source::{Encoding, SourceError};

/// Everything that can be said about a script without running it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Analysis {
    /// The metadata of its block; empty where there is none.
    pub metadata: Metadata,
    /// Inline dependencies and those of the argument in one list, sorted by canonical text.
    pub merged: Vec<Requirement>,
    /// What is wrong, in the order of the script.
    pub problems: Vec<Problem>,
    /// What happened on the way and is no problem, in sentences.
    pub notes: Vec<String>,
}

impl Analysis {
    /// Whether the script can be run: warnings do not count.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.errors().next().is_none()
    }

    /// The problems that keep the script from running.
    pub fn errors(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter().filter(|problem| problem.severity == Severity::Error)
    }

    /// The problems that do not.
    pub fn warnings(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter().filter(|problem| problem.severity == Severity::Warning)
    }

    /// A metadata block that says the same as the merged list and the settings, for the installer to read instead of
    /// the script's own. Equal input gives equal text, so it also serves as the script's part of a cache key.
    #[must_use]
    pub fn to_block(&self) -> String {
        let mut content = toml::Table::new();
        if let Some(versions) = &self.metadata.requires_python {
            let text = toml::Value::String(requirement::sorted(versions));
            content.insert("requires-python".to_owned(), text);
        }
        let merged = self.merged.iter().map(|requirement| toml::Value::String(requirement.to_string()));
        content.insert("dependencies".to_owned(), toml::Value::Array(merged.collect()));
        let text = format!("{content}{}", self.metadata.uv.to_metadata());
        let mut block = String::from("# /// script\n");
        for line in text.lines() {
            block.push_str(if line.is_empty() { "#" } else { "# " });
            block.push_str(line);
            block.push('\n');
        }
        block.push_str("# ///\n");
        block
    }
}

/// Reads a script and the `dependencies` argument of its call.
#[must_use]
pub fn read(source: &str, argument_dependencies: &[String]) -> Analysis {
    let mut problems = Problems::default();
    let argument = read_argument(argument_dependencies, &mut problems);
    let mut metadata = Metadata::default();
    if let Err(error) = source::check(source) {
        report_source(&error, &mut problems);
    } else {
        report_oddities(source, &mut problems);
        if let Some(block) = block::find(source, &mut problems) {
            metadata = metadata::read(&block, &mut problems);
        }
    }
    let merged = merge::merge(&metadata.dependencies, &argument);
    for conflict in merged.conflicts {
        problems.error(None, ProblemKind::Conflict, conflict);
    }
    Analysis { metadata, merged: merged.requirements, problems: problems.into_sorted(), notes: merged.notes }
}

fn read_argument(texts: &[String], problems: &mut Problems) -> Vec<Requirement> {
    if texts.len() > requirement::MAX_REQUIREMENTS {
        let message = format!(
            "the dependencies argument has {} items and at most {} are taken",
            texts.len(),
            requirement::MAX_REQUIREMENTS
        );
        problems.error(None, ProblemKind::TooLarge, message);
        return Vec::new();
    }
    let mut requirements = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        match Requirement::parse(text) {
            Ok(requirement) => requirements.push(requirement),
            Err(error) => {
                let message = format!("dependencies argument, item {}: {error}", index + 1);
                problems.error(None, ProblemKind::Requirement, message);
            }
        }
    }
    requirements
}

fn report_source(error: &SourceError, problems: &mut Problems) {
    let (line, kind) = match error {
        SourceError::Empty => (None, ProblemKind::EmptyScript),
        SourceError::Nul { line, .. } => (Some(*line), ProblemKind::NulByte),
        SourceError::TooLarge { .. } => (None, ProblemKind::TooLarge),
    };
    problems.error(line, kind, error.to_string());
}

fn report_oddities(source: &str, problems: &mut Problems) {
    if let Some((line, fence)) = source::markdown_fence(source) {
        let message = format!(
            "the script starts with a Markdown fence, {fence}: send the code without the fence lines"
        );
        problems.error(Some(line), ProblemKind::MarkdownFence, message);
    }
    if let Encoding::Declared { name, line } = source::declared_encoding(source)
        && !source.is_ascii()
    {
        let message = format!(
            "the script declares the encoding {} and is handed to Python as UTF-8: remove the coding line",
            quoted(&name)
        );
        problems.warning(Some(line), ProblemKind::ForeignEncoding, message);
    }
}
