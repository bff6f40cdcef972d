//! `[tool.uv.sources]`: where single packages come from.

use std::collections::BTreeMap;

use toml::de::DeTable;

use super::super::marker::Marker;
use super::super::problem::{ProblemKind, quoted};
use super::super::toml_reader::{Reader, Value};
use super::super::url;

/// One source of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Where it is.
    pub location: Location,
    /// The environments it is for; all where absent.
    pub marker: Option<String>,
}

/// A place that packages may come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// An index of the same block, by its name there.
    Index(String),
    /// A git repository.
    Git {
        /// Its address: `https`, without credentials.
        url: String,
        /// What to check out; the default branch where absent.
        reference: Option<GitReference>,
        /// The folder of the package.
        subdirectory: Option<String>,
    },
    /// An archive.
    Url {
        /// Its address: `https`, without credentials.
        url: String,
        /// The folder of the package.
        subdirectory: Option<String>,
    },
}

/// What to check out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GitReference {
    /// A commit, or any name that git resolves.
    Rev(String),
    /// A tag.
    Tag(String),
    /// A branch.
    Branch(String),
}

/// Reads the table; a source with a mistake is reported and left out.
pub fn read(reader: &mut Reader<'_>, value: &Value<'_>) -> BTreeMap<String, Vec<Source>> {
    let mut sources = BTreeMap::new();
    let Some(table) = reader.table("tool.uv.sources", value) else { return sources };
    for (package, value) in table {
        let Some(name) = reader.name(&package.span(), package.get_ref()) else { continue };
        let list: Vec<&Value<'_>> = match value.get_ref().as_array() {
            Some(items) => items.iter().collect(),
            None => vec![value],
        };
        let read: Vec<Source> = list.into_iter().filter_map(|item| read_one(reader, &name, item)).collect();
        sources.entry(name).or_insert_with(Vec::new).extend(read);
    }
    sources
}

fn read_one(reader: &mut Reader<'_>, package: &str, value: &Value<'_>) -> Option<Source> {
    let table = reader.table(&format!("the source of {package}"), value)?;
    for (key, _) in table {
        if let Some(reason) = refusal(key.get_ref()) {
            let message = format!(
                "the source of `{package}` is refused because of {}: {reason}",
                quoted(key.get_ref())
            );
            reader.error(&key.span(), ProblemKind::RefusedSetting, message);
            return None;
        }
    }
    let location = match (table.get("index"), table.get("git"), table.get("url")) {
        (Some(index), None, None) => Location::Index(reader.string("index", index)?.to_owned()),
        (None, Some(git), None) => read_git(reader, table, git)?,
        (None, None, Some(archive)) => {
            let url = super::index::url(reader, "url", archive)?;
            Location::Url { url, subdirectory: read_subdirectory(reader, table)? }
        }
        _ => {
            let message = format!("the source of `{package}` needs one of `index`, `git` and `url`");
            reader.error(&value.span(), ProblemKind::InvalidValue, message);
            return None;
        }
    };
    Some(Source { location, marker: read_marker(reader, table)? })
}

fn refusal(key: &str) -> Option<&'static str> {
    match key {
        "index" | "git" | "url" | "rev" | "tag" | "branch" | "subdirectory" | "marker" => None,
        "path" | "editable" => Some("the user's files are not read; use `url`, `git` or `index`"),
        "workspace" | "package" | "extra" | "group" => {
            Some("it belongs to a project in a folder, and a script has none")
        }
        "lfs" => Some("large file storage is not supported"),
        _ => Some("it is not a key that a source has; it takes `index`, `git` or `url`, and `marker`"),
    }
}

fn read_git(reader: &mut Reader<'_>, table: &DeTable<'_>, git: &Value<'_>) -> Option<Location> {
    let text = reader.string("git", git)?;
    let url = match url::git(text) {
        Ok(url) => url,
        Err(error) => {
            reader.error(&git.span(), ProblemKind::RefusedSetting, format!("`git`: {error}"));
            return None;
        }
    };
    let mut reference = None;
    for (key, wrap) in [
        ("rev", GitReference::Rev as fn(String) -> GitReference),
        ("tag", GitReference::Tag),
        ("branch", GitReference::Branch),
    ] {
        let Some(value) = table.get(key) else { continue };
        let text = reader.string(key, value)?;
        if reference.is_some() || !is_reference(text) {
            let message =
                format!("{} is not a git reference; name one of `rev`, `tag` and `branch`", quoted(text));
            reader.error(&value.span(), ProblemKind::InvalidValue, message);
            return None;
        }
        reference = Some(wrap(text.to_owned()));
    }
    Some(Location::Git { url, reference, subdirectory: read_subdirectory(reader, table)? })
}

/// What git takes as a name, and cannot take as an option or a refspec.
fn is_reference(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_graphic() && !b":?*[\\^~ ".contains(&byte);
    !text.is_empty() && text.len() <= 250 && !text.starts_with('-') && text.bytes().all(allowed)
}

/// `None` after a mistake, `Some(None)` where the key is absent.
#[allow(clippy::option_option)] // The outer layer is "go on", as with every reading function here.
fn read_subdirectory(reader: &mut Reader<'_>, table: &DeTable<'_>) -> Option<Option<String>> {
    let Some(value) = table.get("subdirectory") else { return Some(None) };
    let text = reader.string("subdirectory", value)?;
    let climbs = text.split(['/', '\\']).any(|part| part == "..");
    if text.starts_with(['/', '\\']) || climbs || text.chars().any(char::is_control) {
        let message = format!("`subdirectory` {} leaves the package", quoted(text));
        reader.error(&value.span(), ProblemKind::RefusedSetting, message);
        return None;
    }
    Some(Some(text.to_owned()))
}

/// `None` after a mistake, `Some(None)` where the key is absent.
#[allow(clippy::option_option)] // As above.
fn read_marker(reader: &mut Reader<'_>, table: &DeTable<'_>) -> Option<Option<String>> {
    let Some(value) = table.get("marker") else { return Some(None) };
    let text = reader.string("marker", value)?;
    match Marker::parse(text) {
        Ok(marker) => Some(Some(marker.to_string())),
        Err(why) => {
            reader.error(
                &value.span(),
                ProblemKind::InvalidValue,
                format!("`marker` {}: {why}", quoted(text)),
            );
            None
        }
    }
}
