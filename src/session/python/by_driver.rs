//! The workspace of a sandbox whose backend hands no descriptor over: file work is done inside, by the driver.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::sync::Mutex;

use super::driver::Driver;
use crate::sandbox::BoxFuture;
use crate::session::channel::ChannelError;
use crate::session::protocol::{Act, FilesAnswer};
use crate::workspace::path::WorkPath;
use crate::workspace::{
    Entry, EntryKind, FileBytes, FileError, LARGEST_PIECE, Listing, Piece, SHOWN_ENTRIES, Tree, Workspace,
};

/// Bytes of one piece: with base64 around it a frame stays within every limit.
const PIECE: usize = 512 << 10;

/// The driver of a session; nothing once its sandbox was lost.
pub type SharedDriver = Arc<Mutex<Option<Driver>>>;

/// Files by way of the driver.
#[derive(Clone)]
pub struct ByDriver(pub SharedDriver);

/// Numbers of errors inside, which is Linux whatever runs the server.
mod errno {
    pub const NOENT: i32 = 2;
    pub const EXIST: i32 = 17;
    pub const NOTDIR: i32 = 20;
    pub const ISDIR: i32 = 21;
    pub const FBIG: i32 = 27;
    pub const NOSPC: i32 = 28;
    pub const NOTEMPTY: i32 = 39;
    pub const LOOP: i32 = 40;
    pub const DQUOT: i32 = 122;
}

impl ByDriver {
    async fn act(&self, path: &WorkPath, act: Act<'_>) -> Result<FilesAnswer, FileError> {
        let mut shared = self.0.lock().await;
        let named = || if path.is_root() { "the working directory".to_owned() } else { path.to_string() };
        let Some(driver) = shared.as_mut() else {
            let reason = "the sandbox was ended, and its files with it".to_owned();
            return Err(FileError::System { path: named(), reason });
        };
        let answer = match driver.files(act).await {
            Ok(answer) => answer,
            Err(error) => {
                let ended = match shared.take() {
                    Some(driver) => driver.end(Some(error.to_string())).await,
                    None => error.to_string(),
                };
                return Err(FileError::System {
                    path: named(),
                    reason: format!("the sandbox was ended: {ended}"),
                });
            }
        };
        drop(shared);
        let wrong = |what| FileError::Kind { path: named(), what, wanted: "a regular file" };
        match (answer.errno, answer.what.as_deref()) {
            (None, None) => Ok(answer),
            (Some(errno), _) => Err(failed(errno, named())),
            (_, Some("link")) => Err(FileError::Link(named())),
            (_, Some("names")) => Err(FileError::Names(named())),
            (_, Some("folder")) => Err(wrong("a folder")),
            (_, Some(_)) => Err(wrong("a FIFO, socket or device")),
        }
    }
}

fn failed(number: i32, path: String) -> FileError {
    match number {
        errno::NOENT => FileError::Missing(path),
        errno::LOOP => FileError::Link(path),
        errno::NOTDIR => FileError::Kind { path, what: "below a file", wanted: "a folder" },
        errno::ISDIR => FileError::Kind { path, what: "a folder", wanted: "a file" },
        errno::NOSPC | errno::DQUOT | errno::FBIG => FileError::Full(path),
        errno::NOTEMPTY | errno::EXIST => FileError::NotEmpty(path),
        other => {
            FileError::System { path, reason: format!("the sandbox's system refused it (error {other})") }
        }
    }
}

/// An answer without sense is the same as a refusal.
fn odd(path: &WorkPath, error: &ChannelError) -> FileError {
    FileError::System { path: path.to_string(), reason: error.to_string() }
}

fn kind(word: &str) -> EntryKind {
    match word {
        "file" => EntryKind::File,
        "folder" => EntryKind::Folder,
        "link" => EntryKind::Link,
        _ => EntryKind::Special,
    }
}

impl Workspace for ByDriver {
    fn list(&self, folder: &WorkPath) -> BoxFuture<'_, Result<Listing, FileError>> {
        let path = folder.clone();
        Box::pin(async move {
            let answer = self.act(&path, Act::List { path: path.names(), most: SHOWN_ENTRIES }).await?;
            let entries = answer.entries.into_iter().take(SHOWN_ENTRIES);
            let entries = entries.map(|(name, word, size)| Entry { name, kind: kind(&word), size }).collect();
            Ok(Listing { entries, count: answer.count, more: answer.more })
        })
    }

    fn read(&self, file: &WorkPath, piece: Piece) -> BoxFuture<'_, Result<FileBytes, FileError>> {
        let path = file.clone();
        Box::pin(async move {
            let mut read = FileBytes { bytes: Vec::new(), size: 0 };
            let wanted = piece.length.min(LARGEST_PIECE);
            loop {
                let length = (wanted - read.bytes.len()).min(PIECE);
                let offset = piece.offset.saturating_add(read.bytes.len() as u64);
                let answer = self.act(&path, Act::Read { path: path.names(), offset, length }).await?;
                let bytes = STANDARD.decode(answer.data.unwrap_or_default());
                let bytes =
                    bytes.map_err(|_| odd(&path, &ChannelError::Unexpected("no base64".to_owned())))?;
                read.size = answer.size;
                let end = bytes.is_empty() || bytes.len() > length;
                read.bytes.extend_from_slice(&bytes[..bytes.len().min(length)]);
                if end || read.bytes.len() >= wanted {
                    return Ok(read);
                }
            }
        })
    }

    fn write(&self, file: &WorkPath, content: Vec<u8>) -> BoxFuture<'_, Result<(), FileError>> {
        let path = file.clone();
        Box::pin(async move {
            let count = content.len().div_ceil(PIECE).max(1);
            for number in 0..count {
                let piece = &content[number * PIECE..content.len().min((number + 1) * PIECE)];
                let (data, first, last) = (STANDARD.encode(piece), number == 0, number + 1 == count);
                self.act(&path, Act::Write { path: path.names(), data: &data, first, last }).await?;
            }
            Ok(())
        })
    }

    fn remove(&self, path: &WorkPath) -> BoxFuture<'_, Result<(), FileError>> {
        let path = path.clone();
        Box::pin(async move { self.act(&path, Act::Remove { path: path.names() }).await.map(drop) })
    }

    fn files(&self, most: usize) -> BoxFuture<'_, Result<Tree, FileError>> {
        Box::pin(async move {
            let answer = self.act(&WorkPath::default(), Act::Tree { most }).await?;
            let named = |(path, _, size): (String, String, u64)| Some((WorkPath::file(&path).ok()?, size));
            let mut files: Vec<_> = answer.entries.into_iter().take(most).filter_map(named).collect();
            files.sort_by_key(|(path, _)| path.to_string());
            Ok(Tree { files, count: answer.count, bytes: answer.size, more: answer.more })
        })
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::super::testing::{interpreters, real_driver};
    use super::*;
    use std::os::unix::fs::symlink;

    struct Space {
        outside: tempfile::TempDir,
        inside: tempfile::TempDir,
        files: ByDriver,
    }

    async fn space() -> Option<Space> {
        let python = interpreters().pop()?;
        let (outside, inside) =
            (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        std::fs::write(outside.path().join("secret.txt"), "outside only").expect("a secret");
        let driver = real_driver(&python, inside.path()).await;
        Some(Space { outside, inside, files: ByDriver(Arc::new(Mutex::new(Some(driver)))) })
    }

    fn path(text: &str) -> WorkPath {
        WorkPath::parse(text).expect("a path")
    }

    async fn read(space: &Space, name: &str) -> Result<Vec<u8>, FileError> {
        let piece = Piece { offset: 0, length: LARGEST_PIECE };
        space.files.read(&path(name), piece).await.map(|read| read.bytes)
    }

    #[tokio::test]
    async fn files_are_written_in_pieces_read_listed_and_removed() {
        let Some(space) = space().await else { return };
        let large: Vec<u8> =
            (0..3 * PIECE + 17).map(|number| u8::try_from(number % 251).unwrap_or(0)).collect();
        space.files.write(&path("a/b.bin"), large.clone()).await.expect("written");
        assert_eq!(read(&space, "a/b.bin").await.expect("read"), large);
        let piece = Piece { offset: PIECE as u64, length: 5 };
        let part = space.files.read(&path("a/b.bin"), piece).await.expect("read");
        assert_eq!((part.bytes.as_slice(), part.size), (&large[PIECE..PIECE + 5], large.len() as u64));
        space.files.write(&path("a/empty"), Vec::new()).await.expect("written");
        assert_eq!(read(&space, "a/empty").await, Ok(Vec::new()));
        let listing = space.files.list(&path("a")).await.expect("listed");
        let names: Vec<_> = listing.entries.iter().map(|entry| (entry.name.as_str(), entry.kind)).collect();
        assert_eq!(names, [("b.bin", EntryKind::File), ("empty", EntryKind::File)]);
        let tree = space.files.files(10).await.expect("counted");
        assert_eq!((tree.count, tree.bytes, tree.files.len()), (2, large.len() as u64, 2));
        assert!(matches!(space.files.remove(&path("a")).await, Err(FileError::NotEmpty(_))));
        space.files.remove(&path("a/b.bin")).await.expect("removed");
        assert!(matches!(read(&space, "a/b.bin").await, Err(FileError::Missing(_))));
        assert!(matches!(read(&space, "a").await, Err(FileError::Kind { .. })));
    }

    #[tokio::test]
    async fn no_link_is_followed_here_either() {
        let Some(space) = space().await else { return };
        let at = |name: &str| space.inside.path().join(name);
        symlink(space.outside.path().join("secret.txt"), at("link")).expect("a link");
        symlink(space.outside.path(), at("folder")).expect("a link");
        std::fs::write(at("one"), "x").expect("written");
        std::fs::hard_link(at("one"), at("two")).expect("a link");
        let made = std::process::Command::new("mkfifo").arg(at("fifo")).status().expect("mkfifo runs");
        assert!(made.success());
        for name in ["link", "folder/secret.txt", "two", "fifo"] {
            assert!(read(&space, name).await.is_err(), "{name} was read");
        }
        for name in ["link", "folder/made", "two", "fifo"] {
            assert!(space.files.write(&path(name), b"x".to_vec()).await.is_err(), "{name} was written");
        }
        assert_eq!(std::fs::read_dir(space.outside.path()).expect("a folder").count(), 1);
        space.files.remove(&path("link")).await.expect("the link itself is removed");
    }
}
