//! Words and fields for the files of a stateful sandbox.

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};

use super::result;
use super::session::{resource, uri};
use super::shown::{WIDTH, showable, width};
use crate::session::SessionId;
use crate::workspace::media::media_type;
use crate::workspace::path::WorkPath;
use crate::workspace::{EntryKind, FileBytes, Listing};

/// What stands around the name of a file in a list: its size and kind, as fields.
const AROUND: usize = 60;

/// What a folder holds.
pub fn files(folder: &WorkPath, listing: &Listing) -> CallToolResult {
    let path = if folder.is_root() { "/".to_owned() } else { folder.to_string() };
    let word = |kind| match kind {
        EntryKind::File => "file",
        EntryKind::Folder => "folder",
        EntryKind::Link => "link",
        EntryKind::Special => "special",
    };
    let mut lines = Vec::new();
    let mut entries = Vec::new();
    let mut room = WIDTH;
    for entry in &listing.entries {
        let name = entry.name.replace(char::is_control, "\u{fffd}");
        let Some(left) = room.checked_sub(width(&name) + AROUND) else { break };
        room = left;
        let mut fields = json!({"name": name, "type": word(entry.kind)});
        if entry.kind == EntryKind::File {
            fields["size"] = json!(entry.size);
            lines.push(format!("{name} ({} bytes)", entry.size));
        } else {
            lines.push(format!("{name} ({})", word(entry.kind)));
        }
        entries.push(fields);
    }
    let entries_shown = entries.len();
    let mut fields = json!({"path": path, "files": entries, "count": listing.count});
    if entries_shown < listing.count {
        let more = if listing.more { "more than " } else { "" };
        let note = format!(
            "the first {entries_shown} of {more}{} entries are shown; execute_code can list the others",
            listing.count
        );
        lines.push(format!("--- note: {note} ---"));
        fields["notes"] = json!([note]);
    }
    if lines.is_empty() {
        lines.push(format!("{path} is empty"));
    }
    result(lines.join("\n"), fields)
}

/// A file's content: text as it is, a picture as one, anything else as a link. At most `length` bytes of text, no more
/// than clients take, and `picture` bytes of a picture.
pub fn file_read(
    id: &SessionId,
    path: &WorkPath,
    offset: u64,
    length: usize,
    picture: usize,
    read: FileBytes,
) -> CallToolResult {
    let FileBytes { mut bytes, size } = read;
    let shows_picture = offset == 0 && size <= picture as u64 && bytes.len() as u64 == size;
    if let Some(kind) = crate::workspace::media::picture(&bytes).filter(|_| shows_picture) {
        return picture_file(id, path, kind, &bytes);
    }
    bytes.truncate(length);
    match text_of(bytes, offset, size) {
        Some((text, start)) => text_file(id, path, start, size, &text[..showable(&text)]),
        None => binary_file(id, path, size),
    }
}

/// The bytes as text, where they are that, and where it starts; a character that the end cuts is left for the next piece.
fn text_of(mut bytes: Vec<u8>, offset: u64, size: u64) -> Option<(String, u64)> {
    let goes_on = offset + (bytes.len() as u64) < size;
    // The rest of a character that the start cuts.
    let cut = bytes.iter().take(3).take_while(|byte| offset > 0 && **byte & 0xc0 == 0x80).count();
    bytes.drain(..cut);
    if let Err(error) = std::str::from_utf8(&bytes) {
        if error.error_len().is_some() || !goes_on {
            return None;
        }
        bytes.truncate(error.valid_up_to());
    }
    let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))?;
    Some((text, offset + cut as u64))
}

fn text_file(id: &SessionId, path: &WorkPath, offset: u64, size: u64, text: &str) -> CallToolResult {
    let end = offset + text.len() as u64;
    let mut fields = json!({"path": path.to_string(), "content": text, "size": size});
    let mut answer = result(text.to_owned(), Value::Null);
    if offset > 0 || end < size {
        let more = if end < size { format!("; go on with offset {end}") } else { String::new() };
        let note = if offset >= size {
            format!("nothing is at offset {offset}: the file has {size} bytes")
        } else {
            format!("bytes {offset} to {end} of {size}{more}; all of it is the resource {}", uri(id, path))
        };
        fields["notes"] = json!([note]);
        answer.content.push(ContentBlock::text(format!("--- note: {note} ---")));
        answer.content.push(ContentBlock::resource_link(resource(id, path, size)));
    }
    answer.structured_content = Some(fields);
    answer
}

fn picture_file(id: &SessionId, path: &WorkPath, kind: &str, bytes: &[u8]) -> CallToolResult {
    use base64::Engine as _;
    let size = bytes.len() as u64;
    let base64 = base64::engine::general_purpose::STANDARD.encode(bytes);
    let text = format!("{path}: a picture ({kind}, {size} bytes)");
    CallToolResult::success(vec![
        ContentBlock::text(text),
        ContentBlock::image(base64, kind),
        ContentBlock::resource_link(resource(id, path, size)),
    ])
}

/// A file that is no text.
pub fn binary_file(id: &SessionId, path: &WorkPath, size: u64) -> CallToolResult {
    let (media, address) = (media_type(path.name()), uri(id, path));
    let note = format!("not text; read it with execute_code, or as the resource {address}");
    let fields = json!({
        "path": path.to_string(), "content": null, "size": size, "media_type": media, "uri": address, "notes": [note],
    });
    let mut answer = result(format!("{path}: {media}, {size} bytes\n--- note: {note} ---"), fields);
    answer.content.push(ContentBlock::resource_link(resource(id, path, size)));
    answer
}

/// A file was changed.
pub fn stored(path: &WorkPath, message: &str) -> CallToolResult {
    result(message.to_owned(), json!({"path": path.to_string(), "message": message}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_text_are_cut_between_characters() {
        let whole = "ä€x".as_bytes();
        let size = whole.len() as u64;
        let piece = |from: usize, to: usize| text_of(whole[from..to].to_vec(), from as u64, size);
        assert_eq!(piece(0, 6), Some(("ä€x".to_owned(), 0)));
        assert_eq!(piece(0, 4), Some(("ä".to_owned(), 0)), "the end is left for the next piece");
        assert_eq!(piece(2, 6), Some(("€x".to_owned(), 2)));
        assert_eq!(piece(1, 6), Some(("€x".to_owned(), 2)), "the start belongs to the piece before");
        assert_eq!(text_of(b"\x80abc".to_vec(), 0, 4), None);
        assert_eq!(text_of(b"ab\xff".to_vec(), 0, 3), None);
        assert_eq!(text_of(b"a\0b".to_vec(), 0, 3), None);
    }
}
