//! Files that a script leaves in `output/`: read after its end, below the work directory's descriptor, and kept in
//! memory, since the sandbox is gone then.

use std::sync::Arc;

use crate::sandbox::spec::WORK_DIR;
use crate::sandbox::{LeftFile, Running};
use crate::workspace::path::WorkPath;
use crate::workspace::{EntryKind, Piece, Workspace};

/// Files of one run.
const MOST_FILES: usize = 100;
/// Folders that are looked into.
const MOST_FOLDERS: usize = 50;
/// Bytes of one file that is kept.
const LARGEST: u64 = 8 << 20;
/// Bytes of all of them.
const TOTAL: u64 = 32 << 20;

/// The folder below the work directory.
pub const FOLDER: &str = "output";

/// One file that a script left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputFile {
    /// Its path below the work directory.
    pub path: WorkPath,
    /// Its size in bytes.
    pub size: u64,
    /// Its content; `None` where it was too large to be kept.
    pub content: Option<Arc<[u8]>>,
}

/// What a run left.
#[derive(Debug, Default)]
pub struct Left {
    /// Files in `output/`.
    pub output: Vec<OutputFile>,
    /// Whether there was more in it than these.
    pub more: bool,
    /// Names of some of the files that it left beside that folder, as far as the backend shows them.
    pub beside: Vec<String>,
}

impl Left {
    /// What a result says where something in `output/` was not kept.
    pub fn note(&self) -> Option<String> {
        self.more.then(|| {
            format!(
                "some of what lies in {FOLDER}/ was not kept: up to {MOST_FILES} regular files in up to {MOST_FOLDERS} \
                 folders are, with names of UTF-8 without control characters; put more into an archive"
            )
        })
    }
}

/// What a run that has ended left: read from its work directory, or kept by its backend.
#[cfg_attr(not(native), expect(clippy::unused_async, reason = "a work directory takes time to read"))]
pub async fn left_by(running: &mut Running) -> Left {
    #[cfg(native)]
    if let Some(work_dir) = running.work_dir.take() {
        let beside = native::beside(&work_dir);
        return Left { beside, ..native::collect(work_dir).await };
    }
    of(running.control.left_files())
}

/// The files that a backend kept itself, sorted by path. What it calls them is checked like any other name.
fn of(left: Vec<LeftFile>) -> Left {
    let all = left.len();
    let file = |LeftFile { path, size, content }: LeftFile| {
        let below = path.strip_prefix(WORK_DIR).ok()?.to_str()?;
        Some(OutputFile { path: WorkPath::file(below).ok()?, size, content })
    };
    let mut files: Vec<OutputFile> = left.into_iter().filter_map(file).collect();
    files.sort_by_key(|file| file.path.to_string());
    Left { more: files.len() < all, output: files, beside: Vec::new() }
}

/// The files of the output folder, sorted by path, and whether there was anything else; none where there is no such
/// folder.
pub async fn collect(files: &dyn Workspace) -> Left {
    let mut more = false;
    let mut found = Vec::new();
    let mut folders: Vec<WorkPath> = WorkPath::parse(FOLDER).into_iter().collect();
    let mut looked_into = 0;
    while let Some(folder) = folders.pop() {
        looked_into += 1;
        let Ok(listing) = files.list(&folder).await else {
            // Of the output folder itself it means that there is none.
            more |= looked_into > 1;
            continue;
        };
        more |= listing.count > listing.entries.len();
        for entry in listing.entries {
            match (entry.kind, folder.join(&entry.name)) {
                (EntryKind::Folder, Ok(path)) if looked_into + folders.len() < MOST_FOLDERS => {
                    folders.push(path);
                }
                (EntryKind::File, Ok(path)) if found.len() < MOST_FILES => found.push((path, entry.size)),
                _ => more = true,
            }
        }
    }
    found.sort_by_key(|(path, _)| path.to_string());
    let all = found.len();
    let read = read(files, found).await;
    let more = more || read.len() < all;
    Left { output: read, more, beside: Vec::new() }
}

async fn read(files: &dyn Workspace, found: Vec<(WorkPath, u64)>) -> Vec<OutputFile> {
    let mut left = TOTAL;
    let mut read = Vec::new();
    for (path, size) in found {
        let mut content = None;
        if size <= LARGEST.min(left) {
            let piece = Piece { offset: 0, length: usize::try_from(size).unwrap_or(0) };
            // What cannot be read, such as a second name of another file, is not shown.
            let Ok(bytes) = files.read(&path, piece).await else { continue };
            left -= size;
            content = Some(bytes.bytes.into());
        }
        read.push(OutputFile { path, size, content });
    }
    read
}

#[cfg(native)]
mod native {
    use std::os::fd::OwnedFd;

    use rustix::fs::{AtFlags, Dir};

    use super::{FOLDER, Left};
    use crate::workspace::beneath::Beneath;

    /// Entries that are looked at beside the output folder.
    const LOOKED_AT: usize = 200;

    /// Names of entries of a work directory. It is in memory, so this does not wait for anything.
    pub fn beside(work_dir: &OwnedFd) -> Vec<String> {
        let entries = Dir::read_from(work_dir).into_iter().flatten().flatten().take(LOOKED_AT);
        entries.filter_map(|entry| Some(entry.file_name().to_str().ok()?.to_owned())).collect()
    }

    /// Those of a work directory.
    pub async fn collect(work_dir: OwnedFd) -> Left {
        // Most scripts leave nothing: one look, without a thread for it.
        if rustix::fs::statat(&work_dir, FOLDER, AtFlags::SYMLINK_NOFOLLOW).is_err() {
            return Left::default();
        }
        super::collect(&Beneath::new(work_dir)).await
    }

    #[cfg(test)]
    mod tests {
        use super::super::{LARGEST, Left, MOST_FILES};
        use super::collect;

        #[tokio::test]
        async fn files_in_the_output_folder_are_read_and_nothing_else() {
            let folder = tempfile::tempdir().expect("a folder");
            let at = |name: &str| folder.path().join(name);
            let work = || std::fs::File::open(folder.path()).expect("a folder").into();
            assert_eq!(collect(work()).await.output, []);
            std::fs::create_dir_all(at("output/sub")).expect("a folder");
            std::fs::write(at("other.txt"), "x").expect("written");
            std::fs::write(at("output/b.txt"), "bee").expect("written");
            std::fs::write(at("output/sub/a.txt"), "a").expect("written");
            std::fs::File::create(at("output/large"))
                .and_then(|file| file.set_len(LARGEST + 1))
                .expect("made");
            std::os::unix::fs::symlink("/etc/passwd", at("output/link")).expect("a link");
            assert!(super::beside(&work()).contains(&"other.txt".to_owned()));
            std::fs::hard_link(at("other.txt"), at("output/hard")).expect("a link");
            let Left { output: files, more, .. } = collect(work()).await;
            assert!(more, "links are not kept");
            let shown: Vec<_> = files
                .iter()
                .map(|file| (file.path.to_string(), file.size, file.content.as_deref().map(<[u8]>::len)))
                .collect();
            let wanted = [
                ("output/b.txt".to_owned(), 3, Some(3)),
                ("output/large".to_owned(), LARGEST + 1, None),
                ("output/sub/a.txt".to_owned(), 1, Some(1)),
            ];
            assert_eq!(shown, wanted);
        }

        #[tokio::test]
        async fn a_link_in_the_place_of_the_folder_leads_nowhere() {
            let folder = tempfile::tempdir().expect("a folder");
            std::os::unix::fs::symlink("/etc", folder.path().join("output")).expect("a link");
            let left = collect(std::fs::File::open(folder.path()).expect("a folder").into()).await;
            assert_eq!(left.output, []);
        }

        #[tokio::test]
        async fn what_is_not_kept_is_told() {
            let folder = tempfile::tempdir().expect("a folder");
            let at = |name: &str| folder.path().join("output").join(name);
            let more = async || {
                let left = collect(std::fs::File::open(folder.path()).expect("a folder").into()).await;
                assert!(left.output.len() <= MOST_FILES);
                assert_eq!(left.note().is_some(), left.more);
                left.more
            };
            std::fs::create_dir_all(at("sub")).expect("a folder");
            for number in 0..MOST_FILES {
                std::fs::write(at(&format!("sub/{number}")), "").expect("written");
            }
            assert!(!more().await);
            std::fs::write(at("one"), "").expect("written");
            assert!(more().await);
            std::fs::remove_dir_all(at("sub")).expect("removed");
            assert!(!more().await);
            std::fs::write(at("of two\nlines"), "").expect("written");
            assert!(more().await);
        }
    }
}
