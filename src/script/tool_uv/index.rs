//! Package indexes that a script names.

use toml::de::DeTable;

use super::super::problem::{ProblemKind, quoted};
use super::super::toml_reader::{Reader, Value};
use super::super::url;

/// How an index lists its packages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// The simple repository interface (PEP 503, PEP 691).
    #[default]
    Simple,
    /// One page of links.
    Flat,
}

/// How an index is configured, in uv's order of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Notation {
    /// An entry of `index`; `UV_INDEX` and `UV_DEFAULT_INDEX`.
    Index,
    /// The older `extra-index-url`.
    ExtraIndexUrl,
    /// The older `index-url`.
    IndexUrl,
}

/// One `[[tool.uv.index]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// The name that sources refer to, as the script has it.
    pub name: Option<String>,
    /// Its address: `https`, without credentials.
    pub url: String,
    /// Whether it stands in for the default index.
    pub default: bool,
    /// Whether it serves only packages whose source names it.
    pub explicit: bool,
    /// How it lists its packages.
    pub format: Format,
}

const FORMATS: [(&str, Format); 2] = [("simple", Format::Simple), ("flat", Format::Flat)];

/// Reads the list of indexes; one with a mistake is reported and left out.
pub fn read(reader: &mut Reader<'_>, value: &Value<'_>) -> Vec<Index> {
    let Some(items) = value.get_ref().as_array() else {
        reader.wrong_type("tool.uv.index", value, "a list of tables, each written `[[tool.uv.index]]`");
        return Vec::new();
    };
    let mut indexes: Vec<Index> = Vec::new();
    for item in items {
        let Some(table) = reader.table("tool.uv.index", item) else { continue };
        let Some(index) = read_one(reader, item, table) else { continue };
        if index.name.is_some() && indexes.iter().any(|other| other.name == index.name) {
            let name = quoted(index.name.as_deref().unwrap_or_default());
            reader.error(
                &item.span(),
                ProblemKind::InvalidValue,
                format!("two indexes have the name {name}"),
            );
        } else {
            indexes.push(index);
        }
    }
    indexes
}

fn read_one(reader: &mut Reader<'_>, item: &Value<'_>, table: &DeTable<'_>) -> Option<Index> {
    let (mut name, mut address) = (None, None);
    let (mut default, mut explicit, mut format) = (false, false, Format::default());
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "name" => name = Some(read_name(reader, value)?),
            "url" => address = Some(url(reader, "url", value)?),
            "default" => default = reader.boolean("default", value)?,
            "explicit" => explicit = reader.boolean("explicit", value)?,
            "format" => format = reader.choice("format", value, &FORMATS)?,
            other => {
                refuse_key(reader, &key.span(), other);
                return None;
            }
        }
    }
    let Some(url) = address else {
        reader.error(
            &item.span(),
            ProblemKind::InvalidValue,
            "an index needs a `url` that starts with `https://`",
        );
        return None;
    };
    if explicit && name.is_none() {
        let message = "an `explicit` index needs a `name` for `[tool.uv.sources]` to refer to";
        reader.error(&item.span(), ProblemKind::InvalidValue, message);
        return None;
    }
    Some(Index { name, url, default, explicit, format })
}

fn refuse_key(reader: &mut Reader<'_>, span: &std::ops::Range<usize>, key: &str) {
    let message = format!(
        "`[[tool.uv.index]]` key {} is refused: an index has `name`, `url`, `default`, `explicit` and `format`; \
         credentials and publishing are the user's",
        quoted(key)
    );
    reader.error(span, ProblemKind::RefusedSetting, message);
}

fn read_name(reader: &mut Reader<'_>, value: &Value<'_>) -> Option<String> {
    let text = reader.string("name", value)?;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if !text.is_empty() && text.len() <= 64 && text.bytes().all(allowed) {
        return Some(text.to_owned());
    }
    let message = format!("{} is not an index name: use letters, digits, `-`, `_` and `.`", quoted(text));
    reader.error(&value.span(), ProblemKind::InvalidValue, message);
    None
}

/// An address that must be `https`.
pub fn url(reader: &mut Reader<'_>, key: &str, value: &Value<'_>) -> Option<String> {
    let text = reader.string(key, value)?;
    checked(reader, &value.span(), key, text)
}

/// A list of such addresses.
pub fn urls(reader: &mut Reader<'_>, key: &str, value: &Value<'_>) -> Vec<String> {
    let strings = reader.strings(key, value);
    strings.into_iter().filter_map(|(span, text)| checked(reader, &span, key, text)).collect()
}

fn checked(reader: &mut Reader<'_>, span: &std::ops::Range<usize>, key: &str, text: &str) -> Option<String> {
    match url::https(text) {
        Ok(url) => Some(url),
        Err(error) => {
            reader.error(span, ProblemKind::RefusedSetting, format!("`{key}`: {error}"));
            None
        }
    }
}
