//! The workspace of a native sandbox: file work by the server itself, relative to a descriptor of the work directory.
//!
//! Programs inside may change every name at any time. So nothing is looked up twice: each path is resolved once by the
//! kernel, below the descriptor and without links, and what was opened is then asked what it is.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::path::WorkPath;
use super::{
    COUNTED_ENTRIES, Entry, EntryKind, FileBytes, FileError, LARGEST_PIECE, Listing, Piece, SHOWN_ENTRIES,
    Tree, Workspace,
};
use crate::sandbox::BoxFuture;

/// Every look-up stays below the folder it starts at, and meets no link of any kind.
const RESOLVE: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS).union(ResolveFlags::NO_SYMLINKS);

/// Folders within each other that a walk enters.
const DEEPEST_WALK: usize = 64;

/// A work directory that is held open.
#[derive(Clone, Debug)]
pub struct Beneath {
    folder: Arc<OwnedFd>,
}

impl Beneath {
    /// Takes the descriptor of a work directory.
    pub fn new(folder: OwnedFd) -> Self {
        Self { folder: Arc::new(folder) }
    }

    fn work<T, F>(&self, work: F) -> BoxFuture<'static, Result<T, FileError>>
    where
        T: Send + 'static,
        F: FnOnce(BorrowedFd<'_>) -> Result<T, FileError> + Send + 'static,
    {
        let folder = Arc::clone(&self.folder);
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || work(folder.as_fd())).await;
            done.unwrap_or_else(|_| {
                Err(FileError::System {
                    path: "the file".to_owned(),
                    reason: "the work on it broke off".to_owned(),
                })
            })
        })
    }

    /// Copies every regular file and folder of another workspace into this one. Links and special files stay behind.
    /// False where that workspace was removed.
    pub fn take_over(&self, from: &Self) -> BoxFuture<'static, Result<bool, FileError>> {
        let from = Arc::clone(&from.folder);
        self.work(move |into| {
            let root = rustix::fs::fstat(&from).map_err(failed(&WorkPath::default()))?;
            if root.st_nlink == 0 {
                return Ok(false);
            }
            copy_tree(from.as_fd(), into).map(|()| true)
        })
    }
}

impl Workspace for Beneath {
    fn list(&self, folder: &WorkPath) -> BoxFuture<'_, Result<Listing, FileError>> {
        let path = folder.clone();
        self.work(move |root| list(root, &path))
    }

    fn read(&self, file: &WorkPath, piece: Piece) -> BoxFuture<'_, Result<FileBytes, FileError>> {
        let path = file.clone();
        self.work(move |root| read(root, &path, piece))
    }

    fn write(&self, file: &WorkPath, content: Vec<u8>) -> BoxFuture<'_, Result<(), FileError>> {
        let path = file.clone();
        self.work(move |root| write(root, &path, &content))
    }

    fn remove(&self, path: &WorkPath) -> BoxFuture<'_, Result<(), FileError>> {
        let path = path.clone();
        self.work(move |root| remove(root, &path))
    }

    fn files(&self, most: usize) -> BoxFuture<'_, Result<Tree, FileError>> {
        self.work(move |root| files(root, most))
    }
}

/// The system's answer in words.
fn failed(path: &WorkPath) -> impl Fn(Errno) -> FileError + '_ {
    move |errno| {
        let path = if path.is_root() { "the working directory".to_owned() } else { path.to_string() };
        match errno {
            Errno::NOENT => FileError::Missing(path),
            // Not a folder on the way: a file, or a link that is not followed.
            Errno::LOOP | Errno::XDEV | Errno::MLINK => FileError::Link(path),
            Errno::NOTDIR => FileError::Kind { path, what: "below a file", wanted: "a folder" },
            Errno::ISDIR => FileError::Kind { path, what: "a folder", wanted: "a file" },
            Errno::NXIO => {
                FileError::Kind { path, what: "a FIFO, socket or device", wanted: "a regular file" }
            }
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG => FileError::Full(path),
            Errno::NOTEMPTY | Errno::EXIST => FileError::NotEmpty(path),
            other => FileError::System { path, reason: io::Error::from(other).to_string() },
        }
    }
}

fn relative(path: &WorkPath) -> String {
    if path.is_root() { ".".to_owned() } else { path.to_string() }
}

fn open(root: BorrowedFd<'_>, path: &WorkPath, flags: OFlags) -> Result<OwnedFd, FileError> {
    let mut flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    if !flags.contains(OFlags::PATH) {
        flags |= OFlags::NONBLOCK | OFlags::NOCTTY;
    }
    // The kernel asks to try again when something was renamed meanwhile; a program inside could do so for ever.
    for _ in 0..100 {
        match rustix::fs::openat2(root, relative(path), flags, Mode::empty(), RESOLVE) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return other.map_err(failed(path)),
        }
    }
    Err(FileError::System { path: path.to_string(), reason: "it is renamed all the time".to_owned() })
}

fn kind(stat: &Stat) -> EntryKind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Folder,
        FileType::Symlink => EntryKind::Link,
        _ => EntryKind::Special,
    }
}

fn size_of(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// A regular file with one name, opened for reading.
fn regular(root: BorrowedFd<'_>, path: &WorkPath) -> Result<(OwnedFd, Stat), FileError> {
    let wrong = |what| FileError::Kind { path: path.to_string(), what, wanted: "a regular file" };
    if path.is_root() {
        return Err(wrong("a folder"));
    }
    // Without opening it for reading first: that has effects on devices.
    let found = rustix::fs::fstat(open(root, path, OFlags::PATH)?).map_err(failed(path))?;
    only_regular(path, &found)?;
    let file = open(root, path, OFlags::RDONLY)?;
    let stat = rustix::fs::fstat(&file).map_err(failed(path))?;
    only_regular(path, &stat)?;
    Ok((file, stat))
}

fn only_regular(path: &WorkPath, stat: &Stat) -> Result<(), FileError> {
    let wrong = |what| FileError::Kind { path: path.to_string(), what, wanted: "a regular file" };
    match kind(stat) {
        EntryKind::File if stat.st_nlink > 1 => Err(FileError::Names(path.to_string())),
        EntryKind::File => Ok(()),
        EntryKind::Folder => Err(wrong("a folder")),
        EntryKind::Link => Err(FileError::Link(path.to_string())),
        EntryKind::Special => Err(wrong("a FIFO, socket or device")),
    }
}

fn read(root: BorrowedFd<'_>, path: &WorkPath, piece: Piece) -> Result<FileBytes, FileError> {
    let (file, stat) = regular(root, path)?;
    let size = size_of(&stat);
    let left = usize::try_from(size.saturating_sub(piece.offset)).unwrap_or(usize::MAX);
    let mut bytes = vec![0; piece.length.min(LARGEST_PIECE).min(left)];
    let file = std::fs::File::from(file);
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], piece.offset + filled as u64) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                return Err(FileError::System { path: path.to_string(), reason: error.to_string() });
            }
        }
    }
    bytes.truncate(filled);
    Ok(FileBytes { bytes, size })
}

/// Opens a folder, making it and those above it where they are missing.
fn folder_for(root: BorrowedFd<'_>, path: &WorkPath) -> Result<OwnedFd, FileError> {
    let mut here = open(root, &WorkPath::default(), OFlags::PATH | OFlags::DIRECTORY)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    for name in path.names() {
        match rustix::fs::mkdirat(&here, name, Mode::from_raw_mode(0o755)) {
            Ok(()) => own(root, here.as_fd(), name).map_err(failed(path))?,
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed(path)(errno)),
        }
        here = rustix::fs::openat2(&here, name, flags, Mode::empty(), RESOLVE).map_err(failed(path))?;
    }
    Ok(here)
}

/// Gives what the server made to the user of the sandbox, where that is another one.
fn own(root: BorrowedFd<'_>, folder: BorrowedFd<'_>, name: &str) -> rustix::io::Result<()> {
    let owner = rustix::fs::fstat(root)?;
    if rustix::process::geteuid().as_raw() == owner.st_uid {
        return Ok(());
    }
    let (user, group) = (rustix::fs::Uid::from_raw(owner.st_uid), rustix::fs::Gid::from_raw(owner.st_gid));
    rustix::fs::chownat(folder, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)
}

/// Written beside its place under another name and then moved there: nobody sees half a file, and what stood there,
/// link or file with other names, is replaced and not written through.
fn write(root: BorrowedFd<'_>, path: &WorkPath, content: &[u8]) -> Result<(), FileError> {
    let folder = folder_for(root, &path.parent())?;
    match rustix::fs::statat(&folder, path.name(), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => only_regular(path, &stat)?,
        Err(Errno::NOENT) => {}
        Err(errno) => return Err(failed(path)(errno)),
    }
    let (name, file) = temporary(folder.as_fd()).map_err(failed(path))?;
    let put = || -> rustix::io::Result<()> {
        let mut left = content;
        while !left.is_empty() {
            match rustix::io::write(&file, left) {
                Ok(written) => left = &left[written..],
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        own(root, folder.as_fd(), &name)?;
        rustix::fs::renameat(&folder, &name, &folder, path.name())
    };
    put().map_err(|errno| {
        let _ = rustix::fs::unlinkat(&folder, &name, AtFlags::empty());
        failed(path)(errno)
    })
}

/// A new file with a name that nobody has yet.
fn temporary(folder: BorrowedFd<'_>) -> rustix::io::Result<(String, OwnedFd)> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut number = 0_u32;
    loop {
        let name = format!(".upload-{number}");
        match rustix::fs::openat(folder, &name, flags, Mode::from_raw_mode(0o644)) {
            Err(Errno::EXIST) if number < 10_000 => number += 1,
            Err(errno) => return Err(errno),
            Ok(file) => return Ok((name, file)),
        }
    }
}

fn remove(root: BorrowedFd<'_>, path: &WorkPath) -> Result<(), FileError> {
    let folder = open(root, &path.parent(), OFlags::PATH | OFlags::DIRECTORY)?;
    match rustix::fs::unlinkat(&folder, path.name(), AtFlags::empty()) {
        Err(Errno::ISDIR) => {
            rustix::fs::unlinkat(&folder, path.name(), AtFlags::REMOVEDIR).map_err(failed(path))
        }
        other => other.map_err(failed(path)),
    }
}

fn name_of(name: &CStr) -> Option<&[u8]> {
    Some(name.to_bytes()).filter(|name| !matches!(*name, b"." | b".."))
}

fn list(root: BorrowedFd<'_>, path: &WorkPath) -> Result<Listing, FileError> {
    let folder = match open(root, path, OFlags::RDONLY | OFlags::DIRECTORY) {
        Err(FileError::Kind { path, .. }) => {
            return Err(FileError::Kind {
                path,
                what: "no folder",
                wanted: "something to list; read_file reads files",
            });
        }
        other => other?,
    };
    let mut listing = Listing::default();
    let mut names = std::collections::BinaryHeap::new();
    for entry in Dir::read_from(&folder).map_err(failed(path))? {
        let entry = entry.map_err(failed(path))?;
        let Some(name) = name_of(entry.file_name()) else { continue };
        if listing.count == COUNTED_ENTRIES {
            listing.more = true;
            break;
        }
        listing.count += 1;
        // The first ones by name: the largest of those kept goes.
        names.push(name.to_vec());
        if names.len() > SHOWN_ENTRIES {
            names.pop();
        }
    }
    for name in names.into_sorted_vec() {
        // Gone meanwhile: not listed.
        let Ok(stat) = rustix::fs::statat(&folder, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        let kind = kind(&stat);
        let size = if kind == EntryKind::File { size_of(&stat) } else { 0 };
        listing.entries.push(Entry { name: String::from_utf8_lossy(&name).into_owned(), kind, size });
    }
    Ok(listing)
}

/// Visits every regular file and folder below a folder, at most [`COUNTED_ENTRIES`]; true when there are more.
fn walk(
    root: BorrowedFd<'_>,
    visit: &mut dyn FnMut(&WorkPath, BorrowedFd<'_>, &Stat) -> Result<(), FileError>,
) -> Result<bool, FileError> {
    let mut folders = vec![WorkPath::default()];
    let mut seen = 0;
    while let Some(path) = folders.pop() {
        // Gone or replaced meanwhile: not visited.
        let Ok(folder) = open(root, &path, OFlags::RDONLY | OFlags::DIRECTORY) else { continue };
        for entry in Dir::read_from(&folder).map_err(failed(&path))? {
            let Ok(entry) = entry else { break };
            let Some(name) = name_of(entry.file_name()) else { continue };
            seen += 1;
            if seen > COUNTED_ENTRIES {
                return Ok(true);
            }
            let Ok(below) = std::str::from_utf8(name).map(|name| path.join(name)) else { continue };
            let Ok(below) = below else { continue };
            let Ok(stat) = rustix::fs::statat(&folder, below.name(), AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            match kind(&stat) {
                EntryKind::Folder if below.names().len() < DEEPEST_WALK => {
                    visit(&below, root, &stat)?;
                    folders.push(below);
                }
                EntryKind::File => visit(&below, root, &stat)?,
                _ => {}
            }
        }
    }
    Ok(false)
}

fn files(root: BorrowedFd<'_>, most: usize) -> Result<Tree, FileError> {
    let mut tree = Tree::default();
    let more = walk(root, &mut |path, _, stat| {
        if kind(stat) == EntryKind::File {
            tree.count += 1;
            tree.bytes += size_of(stat);
            if tree.files.len() < most {
                tree.files.push((path.clone(), size_of(stat)));
            }
        }
        Ok(())
    })?;
    tree.more = more;
    tree.files.sort_by_key(|(path, _)| path.to_string());
    Ok(tree)
}

fn copy_tree(from: BorrowedFd<'_>, into: BorrowedFd<'_>) -> Result<(), FileError> {
    walk(from, &mut |path, from, stat| {
        if kind(stat) == EntryKind::Folder {
            return folder_for(into, path).map(drop);
        }
        let source = open(from, path, OFlags::RDONLY)?;
        let folder = folder_for(into, &path.parent())?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(stat.st_mode & 0o777);
        let copy = rustix::fs::openat(&folder, path.name(), flags, mode).map_err(failed(path))?;
        let mut left = size_of(stat);
        while left > 0 {
            let piece = usize::try_from(left).unwrap_or(LARGEST_PIECE).min(LARGEST_PIECE);
            match rustix::fs::sendfile(&copy, &source, None, piece) {
                Ok(0) => break,
                Ok(copied) => left -= copied as u64,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed(path)(errno)),
            }
        }
        own(into, folder.as_fd(), path.name()).map_err(failed(path))
    })
    .map(drop)
}

#[cfg(test)]
mod tests;
