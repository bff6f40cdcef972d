//! Configurations in JSON, with comments where the client allows them. Pure: a text becomes a text.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstObjectProp, CstRootNode};
use serde_json::Value;

use super::{Change, ENTRY, Edit, EditError};

/// JSON, comments, and commas at the end: what clients read. Nothing else passes for it.
const LANGUAGE: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// A byte order mark, which some editors put at the beginning.
const MARK: char = '\u{feff}';

/// Puts an entry with these fields under the name of this server into `section`.
pub fn add(text: &str, section: &'static str, fields: &[(&str, Value)]) -> Result<Edit, EditError> {
    let empty = text.trim_start_matches(MARK).trim().is_empty();
    let document = Document::read(if empty { "{}\n" } else { text })?;
    let servers = match document.top.get(section) {
        Some(property) => property.object_value().ok_or(EditError::Shape(section))?,
        None => document.top.object_value_or_set(section),
    };
    let change = match servers.get(ENTRY) {
        Some(there) if says(&there, fields) => return Ok(Edit::Nothing),
        Some(there) => {
            there.set_value(object(fields));
            Change::Replaced
        }
        None => {
            servers.append(ENTRY, object(fields));
            Change::Added
        }
    };
    Ok(document.changed(change))
}

/// Takes this server out of `section`; the section stays, even where it is empty.
pub fn remove(text: &str, section: &'static str) -> Result<Edit, EditError> {
    if text.trim_start_matches(MARK).trim().is_empty() {
        return Ok(Edit::Nothing);
    }
    let document = Document::read(text)?;
    let Some(property) = document.top.get(section) else { return Ok(Edit::Nothing) };
    let servers = property.object_value().ok_or(EditError::Shape(section))?;
    let Some(entry) = servers.get(ENTRY) else { return Ok(Edit::Nothing) };
    entry.remove();
    Ok(document.changed(Change::Removed))
}

/// A text with an object at the top.
struct Document<'a> {
    mark: &'a str,
    root: CstRootNode,
    top: CstObject,
}

impl<'a> Document<'a> {
    fn read(text: &'a str) -> Result<Self, EditError> {
        let (mark, text) = text.split_at(if text.starts_with(MARK) { MARK.len_utf8() } else { 0 });
        let wrong = |reason: String| EditError::Syntax { language: "JSON", reason };
        let root = CstRootNode::parse(text, &LANGUAGE).map_err(|error| wrong(error.to_string()))?;
        let top = root.object_value().ok_or_else(|| wrong("there is no object at its top".to_owned()))?;
        Ok(Self { mark, root, top })
    }

    fn changed(self, change: Change) -> Edit {
        Edit::Text(format!("{}{}", self.mark, self.root), change)
    }
}

/// Whether an entry has exactly these fields.
fn says(property: &CstObjectProp, fields: &[(&str, Value)]) -> bool {
    let there = property.value().and_then(|value| value.to_serde_value());
    let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    there == Some(Value::Object(fields.collect()))
}

fn object(fields: &[(&str, Value)]) -> CstInputValue {
    CstInputValue::Object(fields.iter().map(|(name, value)| ((*name).to_owned(), input(value))).collect())
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(fields) => {
            CstInputValue::Object(fields.iter().map(|(name, value)| (name.clone(), input(value))).collect())
        }
    }
}
