//! Files that a script left in `output/`: pictures as pictures, everything as links.

use percent_encoding::utf8_percent_encode;
use rmcp::model::{CallToolResult, ContentBlock, Resource};
use serde_json::{Value, json};

use crate::execution::output::OutputFile;
use crate::workspace::media::{media_type, picture};

use super::session::IN_PATH;

/// What addresses of a script's files start with.
pub const RUN_SCHEME: &str = "run://";

/// Pictures of one result.
const MOST_IMAGES: usize = 8;

fn uri(run: u64, file: &OutputFile) -> String {
    format!("{RUN_SCHEME}{run}/{}", utf8_percent_encode(&file.path.to_string(), IN_PATH))
}

/// A file as a resource.
pub fn run_file(run: u64, file: &OutputFile) -> Resource {
    Resource::new(uri(run, file), file.path.to_string())
        .with_mime_type(media_type(file.path.name()))
        .with_size(file.size)
}

/// A line for each file.
pub fn lines(run: u64, files: &[OutputFile]) -> Vec<String> {
    let line = |file: &OutputFile| {
        let media = media_type(file.path.name());
        let place = if file.content.is_some() { uri(run, file) } else { "too large to be kept".to_owned() };
        format!("--- file: {} ({media}, {} bytes, {place}) ---", file.path, file.size)
    };
    files.iter().map(line).collect()
}

/// The same for programs.
pub fn fields(run: u64, files: &[OutputFile]) -> Value {
    let fields = |file: &OutputFile| {
        let kept = file.content.is_some().then(|| uri(run, file));
        json!({"path": file.path.to_string(), "bytes": file.size, "media_type": media_type(file.path.name()), "uri": kept})
    };
    files.iter().map(fields).collect()
}

/// Adds pictures of at most `largest` bytes, and links. With pictures there are no fields: some clients show nothing
/// else where there are fields.
pub fn add(answer: &mut CallToolResult, run: u64, files: &[OutputFile], largest: usize) {
    use base64::Engine as _;
    let mut images = 0;
    for file in files {
        let Some(content) = file.content.as_deref() else { continue };
        let kind = picture(content).filter(|_| content.len() <= largest && images < MOST_IMAGES);
        if let Some(kind) = kind {
            images += 1;
            let base64 = base64::engine::general_purpose::STANDARD.encode(content);
            answer.content.push(ContentBlock::image(base64, kind));
            answer.structured_content = None;
        }
        answer.content.push(ContentBlock::resource_link(run_file(run, file)));
    }
}
