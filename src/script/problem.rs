//! What can be wrong with a script before it runs, and how it is told.
//!
//! Every check of this room adds to one [`Problems`] list and goes on, so that the author hears of everything
//! at once. Must never know: how a problem is shown (text, structured content) or to whom.

use std::fmt;

use serde::Serialize;

/// Most problems that are listed for one script; the rest are counted. A block of a megabyte can hold a hundred
/// thousand mistakes, and nobody reads past the first few.
pub const MAX_PROBLEMS: usize = 50;

/// Longest piece of a script that a message repeats, in characters.
const MAX_QUOTED: usize = 80;

/// Whether the script can run as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The script is refused.
    Error,
    /// The script runs; its author should know.
    Warning,
}

/// The kind of a problem, for programs that read results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProblemKind {
    /// Nothing but white space.
    EmptyScript,
    /// A NUL character, which no Python file may hold.
    NulByte,
    /// Longer than [`MAX_SCRIPT_BYTES`](super::source::MAX_SCRIPT_BYTES).
    TooLarge,
    /// The script begins with a Markdown code fence.
    MarkdownFence,
    /// The script declares an encoding other than UTF-8.
    ForeignEncoding,
    /// More than one `script` block.
    DuplicateBlock,
    /// An opening line without a closing line.
    UnclosedBlock,
    /// A line that looks like the opening of a block and is none.
    MisspelledBlock,
    /// The block is not TOML.
    Toml,
    /// A key that the block may not have.
    UnknownKey,
    /// A key whose value has the wrong type or form.
    InvalidValue,
    /// `requires-python` is not a version specifier, or nothing satisfies it.
    RequiresPython,
    /// A dependency that is not a requirement, or one that is not allowed.
    Requirement,
    /// An inline dependency and one of the argument exclude each other.
    Conflict,
    /// A `[tool.uv]` setting that is refused because of what it reads or whom it trusts.
    RefusedSetting,
    /// A `[tool.uv]` setting without an effect here.
    IgnoredSetting,
    /// More problems than are listed.
    TooMany,
}

/// One problem. Its `Display` form puts the line in front.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Line of the script, counted from 1 as Python counts; `None` where no line is to blame, such as for a
    /// dependency of the argument.
    pub line: Option<u32>,
    /// Its kind.
    pub kind: ProblemKind,
    /// Whether the script can run.
    pub severity: Severity,
    /// What is wrong and what to do, in one or two sentences, without the line.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(out, "line {line}: ")?;
        }
        out.write_str(&self.message)
    }
}

/// Collects problems up to [`MAX_PROBLEMS`]; errors push warnings out, never the other way round.
#[derive(Debug, Default)]
pub struct Problems {
    listed: Vec<Problem>,
    left_out: usize,
}

impl Problems {
    /// Adds an error.
    pub fn error(&mut self, line: Option<u32>, kind: ProblemKind, message: impl Into<String>) {
        self.add(Problem { line, kind, severity: Severity::Error, message: message.into() });
    }

    /// Adds a warning.
    pub fn warning(&mut self, line: Option<u32>, kind: ProblemKind, message: impl Into<String>) {
        self.add(Problem { line, kind, severity: Severity::Warning, message: message.into() });
    }

    fn add(&mut self, problem: Problem) {
        if self.listed.len() < MAX_PROBLEMS {
            self.listed.push(problem);
            return;
        }
        self.left_out += 1;
        if problem.severity == Severity::Error
            && let Some(at) = self.listed.iter().rposition(|other| other.severity == Severity::Warning)
        {
            self.listed[at] = problem;
        }
    }

    /// Everything found, in the order of the script: lines first, then what has no line.
    #[must_use]
    pub fn into_sorted(mut self) -> Vec<Problem> {
        self.listed.sort_by_key(|problem| problem.line.unwrap_or(u32::MAX));
        if self.left_out > 0 {
            let severity =
                self.listed.iter().map(|problem| problem.severity).min().unwrap_or(Severity::Error);
            self.listed.push(Problem {
                line: None,
                kind: ProblemKind::TooMany,
                severity,
                message: format!(
                    "{} more problems are not listed; fix these and validate again",
                    self.left_out
                ),
            });
        }
        self.listed
    }
}

/// A piece of untrusted text for a message: in back quotes (in double quotes where it holds one), on one line, without control or direction-changing
/// characters, cut when it is long.
#[must_use]
pub fn quoted(text: &str) -> String {
    let quote = if text.contains('`') { '"' } else { '`' };
    let mut shown = String::from(quote);
    for (count, character) in text.chars().enumerate() {
        if count == MAX_QUOTED {
            shown.push('…');
            break;
        }
        match character {
            '"' | '\'' | '\\' => shown.push(character),
            other => shown.extend(other.escape_debug()),
        }
    }
    shown.push(quote);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_never_crowded_out_by_warnings() {
        let mut problems = Problems::default();
        for line in 0..100 {
            problems.warning(Some(line), ProblemKind::UnknownKey, "warning");
        }
        problems.error(Some(100), ProblemKind::Toml, "the error");
        let listed = problems.into_sorted();
        assert_eq!(listed.len(), MAX_PROBLEMS + 1);
        assert!(listed.iter().any(|problem| problem.message == "the error"));
        assert_eq!(listed.last().map(|problem| problem.kind), Some(ProblemKind::TooMany));
        assert!(listed.last().is_some_and(|problem| problem.message.starts_with("51 more")));
    }

    #[test]
    fn quoted_text_stays_on_one_line_and_short() {
        assert_eq!(quoted("a\nb\u{202e}c"), "`a\\nb\\u{202e}c`");
        assert_eq!(quoted(&"x".repeat(500)).chars().count(), MAX_QUOTED + 3);
        assert_eq!(quoted("six; os_name == 'nt'"), "`six; os_name == 'nt'`");
    }
}
