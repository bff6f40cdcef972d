//! Files that a script left in `output/`: pictures as pictures, everything as links.

use percent_encoding::utf8_percent_encode;
use rmcp::model::{CallToolResult, ContentBlock, Resource};
use serde_json::{Value, json};

use crate::execution::output::OutputFile;
use crate::workspace::media::{media_type, picture};

use super::session::IN_PATH;
use super::shown::width;

/// What addresses of a script's files start with.
pub const RUN_SCHEME: &str = "run://";

/// What the names of files may take together in one result.
const NAMES: usize = 8_000;
/// What stands around a name.
const AROUND: usize = 80;
/// A picture with a longer name is not named in a note.
const LONGEST_NAMED: usize = 300;

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

/// Files that a result names; the others are in the list of resources.
fn named(files: &[OutputFile]) -> &[OutputFile] {
    let mut room = NAMES;
    let fits = |file: &OutputFile| {
        // In the address each byte may take three.
        let left = room.checked_sub(4 * width(&file.path.to_string()) + AROUND);
        room = left.unwrap_or(0);
        left.is_some()
    };
    let number = files.iter().map(fits).take_while(|fits| *fits).count();
    &files[..number]
}

/// What is said of those that a result does not name.
fn unnamed(files: &[OutputFile]) -> Option<String> {
    let more = files.len() - named(files).len();
    (more > 0).then(|| format!("{more} more files are in the list of resources"))
}

/// A line for each file.
pub fn lines(run: u64, files: &[OutputFile]) -> Vec<String> {
    let more = unnamed(files).map(|note| format!("--- note: {note} ---"));
    let line = |file: &OutputFile| {
        let media = media_type(file.path.name());
        let place = if file.content.is_some() { uri(run, file) } else { "too large to be kept".to_owned() };
        format!("--- file: {} ({media}, {} bytes, {place}) ---", file.path, file.size)
    };
    named(files).iter().map(line).chain(more).collect()
}

/// The same for programs, added to the fields of a result.
pub fn add_fields(fields: &mut Value, run: u64, files: &[OutputFile]) {
    let of = |file: &OutputFile| {
        let kept = file.content.is_some().then(|| uri(run, file));
        json!({"path": file.path.to_string(), "bytes": file.size, "media_type": media_type(file.path.name()), "uri": kept})
    };
    fields["files"] = named(files).iter().map(of).collect();
    if let Some(note) = unnamed(files) {
        fields["files_note"] = json!(note);
    }
}

/// What is said of pictures that are not shown: those over `largest` bytes without a smaller one beside them, and those
/// after the last that a result shows.
pub fn unseen(files: &[OutputFile], largest: usize) -> Vec<String> {
    let kinds = ["image/png", "image/jpeg", "image/gif", "image/webp"];
    let pictures = || files.iter().filter(|file| kinds.contains(&media_type(file.path.name())));
    let smaller = |file: &OutputFile| {
        let path = file.path.to_string();
        let (stem, suffix) = path.rsplit_once('.').unwrap_or((&path, ""));
        let wanted = format!("{stem}-small.{suffix}");
        files.iter().any(|file| file.path.to_string() == wanted)
    };
    let large = pictures().filter(|file| file.size > largest as u64 && !smaller(file));
    let mut notes: Vec<String> = large
        .take(MOST_IMAGES)
        .filter(|file| width(&file.path.to_string()) <= LONGEST_NAMED)
        .map(|file| {
            let (path, size) = (&file.path, file.size);
            format!("{path} is not shown: its {size} bytes are more than the {largest} of a picture in a result; save it smaller")
        })
        .collect();
    let shown = shown(files, largest).count();
    if shown > MOST_IMAGES {
        notes.push(format!("{MOST_IMAGES} of {shown} pictures are shown; the others are links"));
    }
    notes
}

/// Pictures that can be shown, by their content.
fn shown(files: &[OutputFile], largest: usize) -> impl Iterator<Item = (&OutputFile, &'static str)> {
    let small = files.iter().filter(move |file| file.size <= largest as u64);
    small.filter_map(|file| Some((file, picture(file.content.as_deref()?)?)))
}

/// Adds pictures of at most `largest` bytes, and links. With pictures there are no fields: some clients show nothing
/// else where there are fields.
pub fn add(answer: &mut CallToolResult, run: u64, files: &[OutputFile], largest: usize) {
    use base64::Engine as _;
    let mut images = 0;
    for file in named(files) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::path::WorkPath;

    fn file(name: &str, content: &[u8]) -> OutputFile {
        let path = WorkPath::file(name).unwrap_or_default();
        OutputFile { path, size: content.len() as u64, content: Some(content.into()) }
    }

    #[test]
    fn pictures_that_are_not_shown_are_told() {
        let png = |name: &str, size: usize| file(name, &[&b"\x89PNG\r\n\x1a\n"[..], &vec![0; size]].concat());
        let files = [
            png("output/a.png", 10),
            png("output/b.png", 500),
            png("output/c.png", 500),
            png("output/c-small.png", 5),
        ];
        let notes = unseen(&files, 100);
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(
            notes[0].starts_with("output/b.png is not shown: its 508 bytes are more than the 100"),
            "{notes:?}"
        );
        let many: Vec<_> = (0..12).map(|number| png(&format!("output/{number}.png"), 1)).collect();
        assert_eq!(unseen(&many, 100), ["8 of 12 pictures are shown; the others are links"]);
        assert_eq!(unseen(&[file("output/a.svg", &[b'<'; 500])], 100), [""; 0]);
    }

    #[test]
    fn many_long_names_do_not_fill_a_result() {
        let files: Vec<_> =
            (0..100).map(|number| file(&format!("output/{number}{}", "\u{e4}".repeat(100)), b"x")).collect();
        let lines = lines(1, &files);
        let text = lines.join("\n");
        assert!(width(&text) < 10_000 && lines.len() > 3, "{}", text.len());
        assert!(text.ends_with("more files are in the list of resources ---"), "{text}");
        let mut fields = json!({});
        add_fields(&mut fields, 1, &files);
        assert_eq!(fields["files"].as_array().map(Vec::len), Some(lines.len() - 1));
        let more = fields["files_note"].as_str().unwrap_or_default();
        assert!(text.ends_with(&format!("--- note: {more} ---")), "{more}");
    }
}
