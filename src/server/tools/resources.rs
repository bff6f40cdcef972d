//! Files of stateful sandboxes as resources: `sandbox://ID/PATH`, with `?offset=` and `length=` for a piece.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};

use crate::server::reply;
use crate::session::{SessionError, SessionId, Sessions};
use crate::workspace::media::media_type;
use crate::workspace::path::WorkPath;
use crate::workspace::{FileError, Piece};

/// Files of one sandbox that a list shows.
const LISTED: usize = 200;
/// Bytes of one answer: in base64 they stay well below what clients take in a line.
const LARGEST_RESOURCE: usize = 8 << 20;

/// The files of every sandbox that is not busy.
pub async fn list(sessions: &Sessions) -> Vec<Resource> {
    let mut resources = Vec::new();
    for id in sessions.all() {
        let Ok(Some(tree)) = sessions.tree(&id, LISTED).await else { continue };
        resources.extend(tree.files.iter().map(|(path, size)| reply::resource(&id, path, *size)));
    }
    resources
}

/// The one form of address.
pub fn templates() -> Vec<ResourceTemplate> {
    let template = format!("{}{{session_id}}/{{+path}}{{?offset,length}}", reply::SCHEME);
    vec![ResourceTemplate::new(template, "sandbox file").with_description(reply::describe::FILES)]
}

/// What an address names.
struct Address {
    id: SessionId,
    path: WorkPath,
    piece: Piece,
}

fn address(uri: &str) -> Result<Address, SessionError> {
    let rest = uri.strip_prefix(reply::SCHEME).unwrap_or(uri);
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (id, path) = place.split_once('/').unwrap_or((place, ""));
    let path = percent_decode_str(path).decode_utf8_lossy();
    let mut piece = Piece { offset: 0, length: usize::MAX };
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        match (name, value.parse::<u64>()) {
            ("offset", Ok(offset)) => piece.offset = offset,
            ("length", Ok(length)) => piece.length = usize::try_from(length).unwrap_or(usize::MAX),
            _ => {}
        }
    }
    let path = WorkPath::file(&path).map_err(FileError::from)?;
    Ok(Address { id: id.parse()?, path, piece })
}

/// Reads a file, or a piece of it.
pub async fn read(sessions: &Sessions, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    content(sessions, uri).await.map_err(|error| reply::resource_error(uri, &error))
}

async fn content(sessions: &Sessions, uri: &str) -> Result<ReadResourceResult, SessionError> {
    let Address { id, path, piece } = address(uri)?;
    let wanted = path.clone();
    let limited = Piece { length: piece.length.min(LARGEST_RESOURCE), ..piece };
    let read =
        sessions.files(&id, move |files| Box::pin(async move { files.read(&wanted, limited).await })).await?;
    let left = read.size.saturating_sub(piece.offset);
    if left.min(piece.length as u64) > LARGEST_RESOURCE as u64 {
        let path = format!("{path} (ask for a piece with ?offset=0&length={LARGEST_RESOURCE})");
        return Err(FileError::Large { path, size: left, limit: LARGEST_RESOURCE }.into());
    }
    let media = media_type(path.name());
    let contents = match String::from_utf8(read.bytes) {
        Ok(text) if !text.contains('\0') => ResourceContents::text(text, uri),
        Ok(text) => ResourceContents::blob(STANDARD.encode(text), uri),
        Err(error) => ResourceContents::blob(STANDARD.encode(error.as_bytes()), uri),
    };
    Ok(ReadResourceResult::new(vec![contents.with_mime_type(media)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_to_files_of_the_workspace_only() {
        let found = address("sandbox://a/output/my%20plot.png?offset=5&length=7");
        let found = found.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((found.id.as_str(), found.path.to_string().as_str()), ("a", "output/my plot.png"));
        assert_eq!(found.piece, Piece { offset: 5, length: 7 });
        for wrong in [
            "sandbox://a",
            "sandbox://a/",
            "sandbox:///etc/passwd",
            "sandbox://a/%2e%2e/x",
            "sandbox://a/../x",
            "sandbox://a/%2fetc/passwd",
            "sandbox://a b/x",
        ] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }
}
