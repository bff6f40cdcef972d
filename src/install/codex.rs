//! Codex keeps its configuration in TOML. Pure: a text becomes a text.

use toml_edit::{Array, DocumentMut, Item, Table, value};

use super::{Change, ENTRY, Edit, EditError, Entry};

/// Puts the entry into the table `section`.
pub fn add(text: &str, section: &'static str, entry: &Entry) -> Result<Edit, EditError> {
    let mut document = read(text)?;
    let servers = document.entry(section).or_insert_with(|| {
        // Only the tables below it have a heading.
        let mut servers = Table::new();
        servers.set_implicit(true);
        Item::Table(servers)
    });
    let servers = servers.as_table_like_mut().ok_or(EditError::Shape(section))?;
    let change = match servers.get(ENTRY) {
        Some(there) if says(there, entry) => return Ok(Edit::Nothing),
        Some(_) => Change::Replaced,
        None => Change::Added,
    };
    let mut table = Table::new();
    table.insert("command", value(entry.command.as_str()));
    table.insert("args", value(entry.args.iter().map(String::as_str).collect::<Array>()));
    let kept = servers.get(ENTRY).and_then(Item::as_table).map(|old| (old.decor().clone(), old.position()));
    if let Some((decor, position)) = kept {
        *table.decor_mut() = decor;
        table.set_position(position);
    }
    servers.insert(ENTRY, Item::Table(table));
    Ok(Edit::Text(document.to_string(), change))
}

/// Takes the entry out of the table `section`.
pub fn remove(text: &str, section: &'static str) -> Result<Edit, EditError> {
    let mut document = read(text)?;
    let Some(servers) = document.get_mut(section) else { return Ok(Edit::Nothing) };
    let servers = servers.as_table_like_mut().ok_or(EditError::Shape(section))?;
    match servers.remove(ENTRY) {
        Some(_) => Ok(Edit::Text(document.to_string(), Change::Removed)),
        None => Ok(Edit::Nothing),
    }
}

fn read(text: &str) -> Result<DocumentMut, EditError> {
    let text = if text.trim().is_empty() { "" } else { text };
    text.parse().map_err(|error: toml_edit::TomlError| EditError::Syntax {
        language: "TOML",
        reason: error.to_string().lines().next().unwrap_or_default().to_owned(),
    })
}

/// Whether an entry starts this server in this way; what else it holds is the user's.
fn says(item: &Item, entry: &Entry) -> bool {
    let Some(table) = item.as_table_like() else { return false };
    let command = table.get("command").and_then(Item::as_str);
    let args = table.get("args").and_then(Item::as_array);
    let args: Option<Vec<_>> = args.map(|args| args.iter().filter_map(toml_edit::Value::as_str).collect());
    command == Some(entry.command.as_str()) && args.is_some_and(|args| args == entry.args)
}
