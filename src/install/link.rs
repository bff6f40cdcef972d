//! Links that make a client ask its user whether to add this server. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

use super::{Client, ENTRY, Entry};

/// What stays as it is in a part of an address.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The link, where the client has such links.
pub fn install(client: Client, entry: &Entry) -> Option<String> {
    let quoted = |text: &str| utf8_percent_encode(text, KEPT).to_string();
    match client {
        Client::Cursor => {
            let config = json!({"command": entry.command, "args": entry.args}).to_string();
            let config = quoted(&STANDARD.encode(config));
            Some(format!("cursor://anysphere.cursor-deeplink/mcp/install?name={ENTRY}&config={config}"))
        }
        Client::Vscode => {
            let config =
                json!({"name": ENTRY, "type": "stdio", "command": entry.command, "args": entry.args});
            Some(format!("vscode:mcp/install?{}", quoted(&config.to_string())))
        }
        _ => None,
    }
}
