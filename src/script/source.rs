//! The text of a script, checked once.
//!
//! A [`Script`] holds exactly what was handed in: no byte is added, removed or re-encoded, a byte order mark stays
//! the first character. Must never know: where the text came from or how it will be run.

use super::lines::Lines;
use super::problem::quoted;

/// Largest script, in bytes (10 MiB): room for one with megabytes of embedded data, and less than a request line may
/// hold.
pub const MAX_SCRIPT_BYTES: usize = 10 * 1024 * 1024;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// Why a text is no script.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// Nothing but white space.
    #[error("the script is empty: send Python source text")]
    Empty,
    /// A NUL character.
    #[error(
        "column {column} holds a NUL character, which Python source may not: write it as `\\0` in a string literal"
    )]
    Nul {
        /// Line of the script, from 1.
        line: u32,
        /// Column in characters, from 1.
        column: usize,
    },
    /// Longer than [`MAX_SCRIPT_BYTES`].
    #[error("the script has {size} bytes and may have {MAX_SCRIPT_BYTES}: move data out of it")]
    TooLarge {
        /// Its size in bytes.
        size: usize,
    },
}

/// The encoding that Python will decode the script with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8: no declaration, or one that says so.
    Utf8,
    /// A coding line (PEP 263) names another encoding.
    Declared {
        /// The name as written.
        name: String,
        /// Line of the declaration: 1 or 2.
        line: u32,
    },
}

/// Source text that can be written to a file and given to Python.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    text: String,
}

impl Script {
    /// Takes a text as it is.
    pub fn new(text: impl Into<String>) -> Result<Self, SourceError> {
        let text = text.into();
        check(&text)?;
        Ok(Self { text })
    }

    /// The text, unchanged.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The bytes for the script's file, unchanged.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// The encoding that Python will use. A declared one makes the tokenizer seek, so such a script can't be read
    /// from a pipe.
    #[must_use]
    pub fn declared_encoding(&self) -> Encoding {
        declared_encoding(&self.text)
    }
}

/// What [`Script::new`] checks, without taking the text.
pub(super) fn check(text: &str) -> Result<(), SourceError> {
    if text.len() > MAX_SCRIPT_BYTES {
        return Err(SourceError::TooLarge { size: text.len() });
    }
    if let Some(at) = text.find('\0') {
        return Err(nul_error(text, at));
    }
    let visible = text.trim_start_matches(BYTE_ORDER_MARK).trim();
    if visible.is_empty() { Err(SourceError::Empty) } else { Ok(()) }
}

fn nul_error(text: &str, at: usize) -> SourceError {
    let line = Lines::from(text, 0, 1).take_while(|line| line.start <= at).last();
    let (number, start) = line.map_or((1, 0), |line| (line.number, line.start));
    SourceError::Nul { line: number, column: text[start..at].chars().count() + 1 }
}

/// The first line with text, if it opens a Markdown code fence.
pub(super) fn markdown_fence(text: &str) -> Option<(u32, String)> {
    let text = text.trim_start_matches(BYTE_ORDER_MARK);
    let first = Lines::from(text, 0, 1).find(|line| !line.text.trim().is_empty())?;
    let start = first.text.trim_start();
    (start.starts_with("```") || start.starts_with("~~~")).then(|| (first.number, quoted(start.trim_end())))
}

/// PEP 263: a comment on line 1, or on line 2 after a line without code.
pub(super) fn declared_encoding(text: &str) -> Encoding {
    for line in Lines::from(text.trim_start_matches(BYTE_ORDER_MARK), 0, 1).take(2) {
        let code = line.text.trim_start_matches([' ', '\t', '\x0c']);
        if let Some(comment) = code.strip_prefix('#') {
            match coding_name(comment) {
                Some(name) if is_utf8(name) => return Encoding::Utf8,
                Some(name) => return Encoding::Declared { name: name.to_owned(), line: line.number },
                None => {}
            }
        } else if !code.is_empty() {
            break;
        }
    }
    Encoding::Utf8
}

/// The name after the first `coding:` or `coding=` of a comment that is followed by one.
fn coding_name(comment: &str) -> Option<&str> {
    comment.match_indices("coding").find_map(|(at, word)| {
        let rest = comment[at + word.len()..].strip_prefix([':', '='])?.trim_start_matches([' ', '\t']);
        let is_name = |byte: char| byte.is_ascii_alphanumeric() || matches!(byte, '-' | '_' | '.');
        let name = &rest[..rest.find(|byte| !is_name(byte)).unwrap_or(rest.len())];
        (!name.is_empty()).then_some(name)
    })
}

fn is_utf8(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('_', "-");
    // The spellings that the standard library's codec look-up takes for UTF-8.
    matches!(name.as_str(), "utf-8" | "utf8" | "u8" | "cp65001" | "utf-8-sig") || name.starts_with("utf-8-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_kept() {
        for text in ["\u{feff}x = 1\r\ny = 2\r", "#\u{2028}\n\tx", "x"] {
            assert_eq!(Script::new(text).expect("a script").bytes(), text.as_bytes());
        }
    }

    #[test]
    fn what_is_no_script_is_refused() {
        for text in ["", " \n\t\n", "\u{feff}", "\u{feff} \n", "\u{3000}"] {
            assert_eq!(Script::new(text), Err(SourceError::Empty), "{text:?}");
        }
        assert_eq!(Script::new("a\r\nbé\0"), Err(SourceError::Nul { line: 2, column: 3 }));
        assert_eq!(Script::new("\0"), Err(SourceError::Nul { line: 1, column: 1 }));
        let size = MAX_SCRIPT_BYTES + 1;
        assert_eq!(Script::new("x".repeat(size)), Err(SourceError::TooLarge { size }));
        assert!(Script::new("x".repeat(MAX_SCRIPT_BYTES)).is_ok());
    }

    #[test]
    fn coding_lines_are_read_as_python_reads_them() {
        let latin = |line| Encoding::Declared { name: "latin-1".to_owned(), line };
        for (text, want) in [
            ("# -*- coding: latin-1 -*-\n", latin(1)),
            ("#!/usr/bin/python\n# vim: set fileencoding=latin-1 :\n", latin(2)),
            ("\n\x0c #coding:latin-1", latin(2)),
            ("# encoding, coding: latin-1", latin(1)),
            ("x = 1\n# coding: latin-1\n", Encoding::Utf8),
            ("#\n#\n# coding: latin-1\n", Encoding::Utf8),
            ("# coding: utf-8\n# coding: latin-1\n", Encoding::Utf8),
            ("# coding: UTF_8\n", Encoding::Utf8),
            ("# coding : latin-1\n", Encoding::Utf8),
            ("'# coding: latin-1'\n", Encoding::Utf8),
        ] {
            assert_eq!(declared_encoding(text), want, "{text:?}");
        }
    }

    #[test]
    fn a_fence_is_seen_only_at_the_top() {
        assert_eq!(markdown_fence("\n```python\nx\n```"), Some((2, "\"```python\"".to_owned())));
        assert_eq!(markdown_fence("x = 1\n```"), None);
    }
}
