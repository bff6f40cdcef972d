//! Reads typed values out of the block's TOML and reports every value of the wrong type with its line.
//!
//! Must never know: which keys there are.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::block::Block;
use super::problem::{ProblemKind, Problems, quoted};
use super::requirement::{MAX_REQUIREMENTS, Requirement};

/// A value with its place in the block.
pub type Value<'a> = Spanned<DeValue<'a>>;

/// The block, and the list that problems go to.
pub struct Reader<'a> {
    block: &'a Block,
    problems: &'a mut Problems,
}

impl<'a> Reader<'a> {
    /// A reader of one block.
    pub fn new(block: &'a Block, problems: &'a mut Problems) -> Self {
        Self { block, problems }
    }

    /// The line of the script for a place in the block.
    pub fn line(&self, span: &Range<usize>) -> u32 {
        self.block.position(span.start).line
    }

    /// Reports an error at a place in the block.
    pub fn error(&mut self, span: &Range<usize>, kind: ProblemKind, message: impl Into<String>) {
        let line = self.line(span);
        self.problems.error(Some(line), kind, message);
    }

    /// Reports a warning at a place in the block.
    pub fn warning(&mut self, span: &Range<usize>, kind: ProblemKind, message: impl Into<String>) {
        let line = self.line(span);
        self.problems.warning(Some(line), kind, message);
    }

    /// Reports a value of the wrong type; `wanted` completes "must be".
    pub fn wrong_type(&mut self, key: &str, value: &Value<'_>, wanted: &str) {
        let found = value.get_ref().type_str();
        let message = format!("{} must be {wanted}, not {}", quoted(key), with_article(found));
        self.error(&value.span(), ProblemKind::InvalidValue, message);
    }

    /// A string.
    pub fn string<'v>(&mut self, key: &str, value: &'v Value<'_>) -> Option<&'v str> {
        let text = value.get_ref().as_str();
        if text.is_none() {
            self.wrong_type(key, value, "a string in quotes");
        }
        text
    }

    /// `true` or `false`.
    pub fn boolean(&mut self, key: &str, value: &Value<'_>) -> Option<bool> {
        let truth = value.get_ref().as_bool();
        if truth.is_none() {
            self.wrong_type(key, value, "`true` or `false`");
        }
        truth
    }

    /// A table.
    pub fn table<'v, 't>(&mut self, key: &str, value: &'v Value<'t>) -> Option<&'v DeTable<'t>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.wrong_type(key, value, "a table");
        }
        table
    }

    /// A list of strings with their places; items of another type are reported and left out.
    pub fn strings<'v>(&mut self, key: &str, value: &'v Value<'_>) -> Vec<(Range<usize>, &'v str)> {
        let Some(items) = value.get_ref().as_array() else {
            let wanted = match value.get_ref().as_str() {
                Some(text) if text.len() <= 60 => format!("a list of strings, such as `[{text:?}]`"),
                _ => "a list of strings".to_owned(),
            };
            self.wrong_type(key, value, &wanted);
            return Vec::new();
        };
        let mut strings = Vec::new();
        for item in items {
            match item.get_ref().as_str() {
                Some(text) => strings.push((item.span(), text)),
                None => self.wrong_type(&format!("an item of {key}"), item, "a string in quotes"),
            }
        }
        strings
    }

    /// A list of requirements; what is none is reported and left out.
    pub fn requirements(&mut self, key: &str, value: &Value<'_>) -> Vec<Requirement> {
        let mut requirements = Vec::new();
        let count = value.get_ref().as_array().map_or(0, |items| items.len());
        if count > MAX_REQUIREMENTS {
            let message =
                format!("{} has {count} items and at most {MAX_REQUIREMENTS} are taken", quoted(key));
            self.error(&value.span(), ProblemKind::TooLarge, message);
            return requirements;
        }
        for (span, text) in self.strings(key, value) {
            match Requirement::parse(text) {
                Ok(requirement) => requirements.push(requirement),
                Err(error) => self.error(&span, ProblemKind::Requirement, error.to_string()),
            }
        }
        requirements
    }

    /// A list of package names, normalised.
    pub fn names(&mut self, key: &str, value: &Value<'_>) -> Vec<String> {
        let strings = self.strings(key, value);
        strings.into_iter().filter_map(|(span, text)| self.name(&span, text)).collect()
    }

    /// A package name, normalised.
    pub fn name(&mut self, span: &Range<usize>, text: &str) -> Option<String> {
        let name = text.parse::<pep508_rs::PackageName>().ok().map(|name| name.to_string());
        if name.is_none() {
            self.error(span, ProblemKind::InvalidValue, format!("{} is not a package name", quoted(text)));
        }
        name
    }

    /// One of several words. `choices` pairs each word with its meaning.
    pub fn choice<T: Copy>(&mut self, key: &str, value: &Value<'_>, choices: &[(&str, T)]) -> Option<T> {
        let text = self.string(key, value)?;
        let chosen = choices.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
        if chosen.is_none() {
            let words: Vec<_> = choices.iter().map(|(word, _)| format!("`{word}`")).collect();
            let message =
                format!("{} cannot be {}; it is one of {}", quoted(key), quoted(text), words.join(", "));
            self.error(&value.span(), ProblemKind::InvalidValue, message);
        }
        chosen
    }
}

fn with_article(type_name: &str) -> String {
    let article = if type_name.starts_with(['a', 'i']) { "an" } else { "a" };
    format!("{article} {type_name}")
}
