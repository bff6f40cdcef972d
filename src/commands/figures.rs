//! Figures of a `run`, saved for the person who started it.
//!
//! What a script leaves is hostile: only what really is a picture is saved, under a plain name, and nothing that is there
//! already is written over.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::execution::output::OutputFile;
use crate::workspace::media;

/// Names that are tried for one figure.
const TRIES: usize = 1000;

/// Saves every picture; gives where they are.
pub fn save(files: &[OutputFile], folder: &Path) -> io::Result<Vec<PathBuf>> {
    let pictures = files.iter().filter_map(|file| {
        let content = file.content.as_deref()?;
        Some((name(file), media::picture(content)?.trim_start_matches("image/"), content))
    });
    let mut saved = Vec::new();
    for (name, kind, content) in pictures {
        fs::create_dir_all(folder)?;
        saved.push(write(folder, &name, kind, content)?);
    }
    Ok(saved)
}

/// A name without folders, suffix, and signs that a shell or a file manager would make something of.
fn name(file: &OutputFile) -> String {
    let names = file.path.names().iter().skip(1).map(String::as_str).collect::<Vec<_>>().join("-");
    let stem = names.rsplit_once('.').map_or(names.as_str(), |(stem, _)| stem);
    let plain = |sign: char| if sign.is_alphanumeric() || "-_".contains(sign) { sign } else { '_' };
    let stem: String = stem.chars().take(80).map(plain).collect();
    let stem = stem.trim_start_matches(['-', '_']);
    if stem.is_empty() { "figure".to_owned() } else { stem.to_owned() }
}

fn write(folder: &Path, name: &str, kind: &str, content: &[u8]) -> io::Result<PathBuf> {
    for number in 1..=TRIES {
        let suffix = if number == 1 { String::new() } else { format!("-{number}") };
        let path = folder.join(format!("{name}{suffix}.{kind}"));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => return file.write_all(content).map(|()| path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(format!("{TRIES} figures named {name} lie there already")))
}

/// Shows pictures with the program that the desktop has for them.
pub fn open(paths: &[PathBuf]) -> io::Result<()> {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    for path in paths {
        let path = path.canonicalize()?;
        let quiet = || Stdio::null();
        Command::new(opener).arg(path).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn().map_err(
            |error| io::Error::new(error.kind(), format!("{opener} could not be started: {error}")),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::path::WorkPath;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";

    fn file(path: &str, content: &[u8]) -> OutputFile {
        let path = WorkPath::parse(path).expect("a path");
        OutputFile { path, size: content.len() as u64, content: Some(content.into()) }
    }

    #[test]
    fn pictures_are_saved_under_plain_names_and_nothing_else_is() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("plot.png"), "mine").expect("writable");
        let files = [
            file("output/plot.png", PNG),
            file("output/sub/plot.png", PNG),
            file("output/.bashrc", b"rm -rf ~"),
            file("output/.envrc.png", PNG),
            file("output/-x;y z.exe", PNG),
            file("output/fake.png", b"<svg onload=..>"),
            file("output/photo.png", b"\xff\xd8\xffjpeg"),
        ];
        let saved = save(&files, folder.path()).expect("writable");
        let names: Vec<_> =
            saved.iter().map(|path| path.file_name().expect("named").to_str().expect("text")).collect();
        assert_eq!(names, ["plot-2.png", "sub-plot.png", "envrc.png", "x_y_z.png", "photo.jpeg"]);
        assert_eq!(fs::read_to_string(folder.path().join("plot.png")).expect("there"), "mine");
        assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 6);
    }

    #[test]
    fn without_pictures_no_folder_is_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let figures = folder.path().join("figures");
        assert_eq!(
            save(&[file("output/table.csv", b"1,2")], &figures).expect("nothing to do"),
            Vec::<PathBuf>::new()
        );
        assert!(!figures.exists());
    }
}
