//! The files of one sandbox, in terms that every backend can carry out.
//!
//! A name gets in by [`path`] and no other way; `beneath` opens it below a descriptor of the work directory, without
//! following links.
//!
//! Invariant: it never takes or makes a path of the host.

#[cfg(native)]
pub mod beneath;
pub mod media;
pub mod path;

use crate::sandbox::BoxFuture;
use path::{PathError, WorkPath};

/// Entries of one folder that a listing shows.
pub const SHOWN_ENTRIES: usize = 1000;
/// Entries that are looked at before a count is given up.
pub const COUNTED_ENTRIES: usize = 100_000;
/// Bytes that one call reads or writes at most.
pub const LARGEST_PIECE: usize = 16 << 20;

/// The files of one sandbox. Every path is opened below the work directory without following links, whatever the
/// programs inside do meanwhile.
pub trait Workspace: Send + Sync {
    /// A folder's entries, sorted by name; at most [`SHOWN_ENTRIES`] of them.
    fn list(&self, folder: &WorkPath) -> BoxFuture<'_, Result<Listing, FileError>>;

    /// A piece of a regular file, at most [`LARGEST_PIECE`].
    fn read(&self, file: &WorkPath, piece: Piece) -> BoxFuture<'_, Result<FileBytes, FileError>>;

    /// Puts a regular file in place, at once and whole; folders above it are made.
    fn write(&self, file: &WorkPath, content: Vec<u8>) -> BoxFuture<'_, Result<(), FileError>>;

    /// Removes a file, a link or an empty folder.
    fn remove(&self, path: &WorkPath) -> BoxFuture<'_, Result<(), FileError>>;

    /// All regular files below a folder, as far as they can be counted.
    fn files(&self, most: usize) -> BoxFuture<'_, Result<Tree, FileError>>;
}

/// Which bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// From here.
    pub offset: u64,
    /// At most this many.
    pub length: usize,
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileBytes {
    /// The bytes; fewer than asked for at the end of the file.
    pub bytes: Vec<u8>,
    /// Bytes of the whole file.
    pub size: u64,
}

/// A folder's entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Some of them, sorted by name.
    pub entries: Vec<Entry>,
    /// How many there are.
    pub count: usize,
    /// Whether there are more than were counted.
    pub more: bool,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name; U+FFFD stands for what is not UTF-8.
    pub name: String,
    /// What it is.
    pub kind: EntryKind,
    /// Bytes of a regular file.
    pub size: u64,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link, which is not followed.
    Link,
    /// A FIFO, a socket, a device.
    Special,
}

/// Regular files of a whole workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Path and size of some of them, sorted.
    pub files: Vec<(WorkPath, u64)>,
    /// How many there are.
    pub count: usize,
    /// Their sizes together, in bytes.
    pub bytes: u64,
    /// Whether there are more than were counted.
    pub more: bool,
}

/// Why a file operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// The path is refused.
    #[error(transparent)]
    Path(#[from] PathError),
    /// Nothing is there.
    #[error("{0} does not exist in the working directory; list_files shows what does")]
    Missing(String),
    /// It is something else than a regular file or folder.
    #[error("{path} is {what}, which is not {wanted}")]
    Kind {
        /// The path.
        path: String,
        /// What it is.
        what: &'static str,
        /// What it should be.
        wanted: &'static str,
    },
    /// A link is on the way.
    #[error("{0} is a symbolic link or leads through one; links are not followed")]
    Link(String),
    /// The file has a second name.
    #[error("{0} has several names (hard links); copy it in the sandbox and use the copy")]
    Names(String),
    /// More than one call takes.
    #[error("{path}: {size} bytes are more than the {limit} that one call takes")]
    Large {
        /// The path.
        path: String,
        /// How many.
        size: u64,
        /// At most.
        limit: usize,
    },
    /// The disk limit of the sandbox is reached.
    #[error("{0} could not be written: the sandbox's disk limit is reached; delete files first")]
    Full(String),
    /// The folder is not empty.
    #[error("{0} is a folder with files in it; delete those first")]
    NotEmpty(String),
    /// The operating system said something else.
    #[error("{path}: {reason}")]
    System {
        /// The path.
        path: String,
        /// What it said.
        reason: String,
    },
}
