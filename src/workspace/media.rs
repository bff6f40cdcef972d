//! Media types, by name and by the first bytes. Pure.

/// Pictures that clients show, with what each starts with.
const PICTURES: [(&str, &[u8]); 4] = [
    ("image/png", b"\x89PNG\r\n\x1a\n"),
    ("image/jpeg", b"\xff\xd8\xff"),
    ("image/gif", b"GIF87a"),
    ("image/gif", b"GIF89a"),
];

const BY_SUFFIX: [(&str, &str); 31] = [
    ("csv", "text/csv"),
    ("css", "text/css"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("ipynb", "application/x-ipynb+json"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("jsonl", "application/jsonl"),
    ("log", "text/plain"),
    ("md", "text/markdown"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("parquet", "application/vnd.apache.parquet"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ("py", "text/x-python"),
    ("svg", "image/svg+xml"),
    ("tex", "text/latex"),
    ("toml", "application/toml"),
    ("txt", "text/plain"),
    ("wav", "audio/wav"),
    ("webp", "image/webp"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("xml", "application/xml"),
    ("zip", "application/zip"),
];

/// The media type that a file's name stands for.
pub fn media_type(name: &str) -> &'static str {
    let suffix = name.rsplit_once('.').map(|(_, suffix)| suffix.to_ascii_lowercase()).unwrap_or_default();
    let known = BY_SUFFIX.iter().find(|(known, _)| *known == suffix);
    known.map_or("application/octet-stream", |(_, media)| media)
}

/// The kind of picture that these bytes start with.
pub fn picture(bytes: &[u8]) -> Option<&'static str> {
    // A RIFF file is a container of anything: sound is as common as pictures.
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        return Some("image/webp");
    }
    PICTURES.iter().find(|(_, start)| bytes.starts_with(start)).map(|(media, _)| *media)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_known_by_their_whole_signature() {
        for (bytes, kind) in [
            (&b"\x89PNG\r\n\x1a\n..."[..], Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"GIF87a", Some("image/gif")),
            (b"GIF89a;", Some("image/gif")),
            (b"RIFF\x10\0\0\0WEBPVP8 ", Some("image/webp")),
            (b"RIFF\x24\x08\0\0WAVEfmt ", None),
            (b"RIFF\x24\x08\0\0AVI LIST", None),
            (b"RIFF", None),
            (b"GIF8 is a number of this year", None),
            (b"", None),
        ] {
            assert_eq!(picture(bytes), kind, "{bytes:?}");
        }
    }
}
