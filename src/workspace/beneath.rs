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
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    struct Space {
        outside: tempfile::TempDir,
        inside: tempfile::TempDir,
        files: Beneath,
    }

    const SECRET: &str = "outside only";

    /// A workspace, and beside it a folder with a secret.
    fn space() -> Space {
        let (outside, inside) = (tempfile::tempdir(), tempfile::tempdir());
        let (outside, inside) = (outside.expect("a folder"), inside.expect("a folder"));
        std::fs::write(outside.path().join("secret.txt"), SECRET).expect("a secret");
        let folder = std::fs::File::open(inside.path()).expect("a folder");
        Space { outside, inside, files: Beneath::new(folder.into()) }
    }

    impl Space {
        fn at(&self, name: &str) -> std::path::PathBuf {
            self.inside.path().join(name)
        }

        async fn read(&self, path: &str) -> Result<String, FileError> {
            let piece = Piece { offset: 0, length: 1000 };
            let read = self.files.read(&WorkPath::parse(path)?, piece).await?;
            Ok(String::from_utf8_lossy(&read.bytes).into_owned())
        }

        async fn write(&self, path: &str, text: &str) -> Result<(), FileError> {
            self.files.write(&WorkPath::parse(path)?, text.into()).await
        }

        fn outside_is_untouched(&self) {
            let names: Vec<_> = std::fs::read_dir(self.outside.path())
                .expect("a folder")
                .map(|entry| entry.expect("an entry").file_name())
                .collect();
            assert_eq!(names, ["secret.txt"]);
            let secret = std::fs::read_to_string(self.outside.path().join("secret.txt"));
            assert_eq!(secret.expect("a secret"), SECRET);
        }
    }

    #[tokio::test]
    async fn what_is_written_is_read_listed_and_removed() {
        let space = space();
        space.write("a/b/c.txt", "one").await.expect("written");
        space.write("a/b/c.txt", "two").await.expect("written again");
        assert_eq!(space.read("a/b/c.txt").await.as_deref(), Ok("two"));
        let folder = WorkPath::parse("a/b").expect("a path");
        let listing = space.files.list(&folder).await.expect("listed");
        let wanted = Entry { name: "c.txt".to_owned(), kind: EntryKind::File, size: 3 };
        assert_eq!((listing.entries, listing.count, listing.more), (vec![wanted], 1, false));
        let file = WorkPath::parse("a/b/c.txt").expect("a path");
        assert!(matches!(
            space.files.remove(&WorkPath::parse("a").expect("a path")).await,
            Err(FileError::NotEmpty(_))
        ));
        space.files.remove(&file).await.expect("removed");
        space.files.remove(&folder).await.expect("an empty folder is removed, too");
        assert!(matches!(space.read("a/b/c.txt").await, Err(FileError::Missing(_))));
    }

    #[tokio::test]
    async fn no_link_is_followed_out() {
        let space = space();
        let secret = space.outside.path().join("secret.txt");
        symlink(&secret, space.at("link")).expect("a link");
        symlink(space.outside.path(), space.at("folder")).expect("a link");
        symlink("/proc/self/root", space.at("root")).expect("a link");
        symlink("/proc/self/fd", space.at("fd")).expect("a link");
        std::fs::create_dir(space.at("real")).expect("a folder");
        symlink("real", space.at("within")).expect("a link");
        for path in ["link", "folder/secret.txt", "root/etc/passwd", "fd/0", "within/x"] {
            let error = space.read(path).await.expect_err("a link was followed");
            assert!(matches!(error, FileError::Link(_) | FileError::Kind { .. }), "{path}: {error}");
        }
        for path in ["folder/made.txt", "root/tmp/made.txt", "within/made.txt", "link"] {
            assert!(space.write(path, "x").await.is_err(), "{path} was written");
        }
        assert!(space.files.list(&WorkPath::parse("folder").expect("a path")).await.is_err());
        assert!(space.files.remove(&WorkPath::parse("folder/secret.txt").expect("a path")).await.is_err());
        // The link itself is a name of the workspace.
        space.files.remove(&WorkPath::parse("link").expect("a path")).await.expect("the link is removed");
        space.outside_is_untouched();
    }

    #[tokio::test]
    async fn a_second_name_of_a_file_is_neither_read_nor_written_through() {
        let space = space();
        let secret = space.outside.path().join("secret.txt");
        if std::fs::hard_link(&secret, space.at("hard")).is_err() {
            std::fs::write(space.at("own"), SECRET).expect("a file");
            std::fs::hard_link(space.at("own"), space.at("hard")).expect("a link");
        }
        assert!(matches!(space.read("hard").await, Err(FileError::Names(_))));
        assert!(matches!(space.write("hard", "x").await, Err(FileError::Names(_))));
        space.outside_is_untouched();
    }

    #[tokio::test]
    async fn fifos_sockets_and_folders_are_no_files() {
        let space = space();
        let made = std::process::Command::new("mkfifo").arg(space.at("fifo")).status().expect("mkfifo runs");
        assert!(made.success());
        let _listener = std::os::unix::net::UnixListener::bind(space.at("socket")).expect("a socket");
        std::fs::create_dir(space.at("folder")).expect("a folder");
        for path in ["fifo", "socket", "folder"] {
            // Opening a FIFO without a writer would wait for ever.
            let read = tokio::time::timeout(std::time::Duration::from_secs(5), space.read(path)).await;
            assert!(matches!(read, Ok(Err(FileError::Kind { .. }))), "{path}: {read:?}");
            assert!(matches!(space.write(path, "x").await, Err(FileError::Kind { .. })), "{path}");
        }
        assert!(space.files.list(&WorkPath::parse("fifo").expect("a path")).await.is_err());
    }

    #[tokio::test]
    async fn a_large_file_is_read_in_pieces() {
        let space = space();
        let file = std::fs::File::create(space.at("large")).expect("a file");
        file.set_len(5 << 30).expect("five gigabytes of nothing");
        file.write_all_at(b"end", (5 << 30) - 3).expect("written");
        let path = WorkPath::parse("large").expect("a path");
        let piece = Piece { offset: (5 << 30) - 3, length: usize::MAX };
        let read = space.files.read(&path, piece).await.expect("read");
        assert_eq!(read, FileBytes { bytes: b"end".to_vec(), size: 5 << 30 });
        let whole = space.files.read(&path, Piece { offset: 0, length: usize::MAX }).await.expect("read");
        assert_eq!(whole.bytes.len(), LARGEST_PIECE);
        let behind = space.files.read(&path, Piece { offset: 6 << 30, length: 10 }).await.expect("read");
        assert!(behind.bytes.is_empty());
    }

    #[tokio::test]
    async fn a_folder_with_very_many_entries_is_counted_and_shown_in_part() {
        let space = space();
        let many = 100_010;
        std::fs::create_dir(space.at("many")).expect("a folder");
        for number in 0..many {
            symlink("x", space.at("many").join(format!("{number:06}"))).expect("an entry");
        }
        let listing = space.files.list(&WorkPath::parse("many").expect("a path")).await.expect("listed");
        assert_eq!(
            (listing.entries.len(), listing.count, listing.more),
            (SHOWN_ENTRIES, COUNTED_ENTRIES, true)
        );
        let tree = space.files.files(10).await.expect("counted");
        assert!(tree.more);
    }

    #[tokio::test]
    async fn names_that_are_no_unicode_are_listed_and_left_alone() {
        use std::os::unix::ffi::OsStrExt;
        let space = space();
        let name = std::ffi::OsStr::from_bytes(b"odd\xff");
        std::fs::write(space.inside.path().join(Path::new(name)), "x").expect("written");
        let listing = space.files.list(&WorkPath::default()).await.expect("listed");
        assert_eq!(listing.entries[0].name, "odd\u{fffd}");
        assert_eq!(space.files.files(10).await.expect("counted").count, 0);
    }

    #[tokio::test]
    async fn a_link_that_flips_while_files_are_written_leads_nowhere() {
        let space = space();
        let (stop, stopped) =
            (Arc::new(std::sync::atomic::AtomicBool::new(false)), std::sync::atomic::Ordering::Relaxed);
        let (outside, place, temporary) =
            (space.outside.path().to_owned(), space.at("sw"), space.at("sw.tmp"));
        let flipping = Arc::clone(&stop);
        let flipper = std::thread::spawn(move || {
            let mut flips = 0_u32;
            while !flipping.load(stopped) {
                let _ = symlink(&outside, &temporary).and_then(|()| std::fs::rename(&temporary, &place));
                let _ = std::fs::remove_file(&place);
                let _ = std::fs::create_dir(&place);
                let _ = std::fs::remove_dir(&place);
                flips += 1;
            }
            flips
        });
        for _ in 0..2000 {
            let _ = space.write("sw/made.txt", "x").await;
            if let Ok(text) = space.read("sw/secret.txt").await {
                assert_ne!(text, SECRET, "read through the link");
            }
            let _ = space.files.remove(&WorkPath::parse("sw/made.txt").expect("a path")).await;
        }
        stop.store(true, stopped);
        assert!(flipper.join().expect("no panic") > 100, "nothing was flipped");
        space.outside_is_untouched();
    }

    #[tokio::test]
    async fn files_are_taken_over_and_links_stay_behind() {
        let (old, new) = (space(), space());
        old.write("a/b.txt", "kept").await.expect("written");
        std::fs::create_dir(old.at("empty")).expect("a folder");
        symlink(old.outside.path().join("secret.txt"), old.at("link")).expect("a link");
        assert_eq!(new.files.take_over(&old.files).await, Ok(true));
        assert_eq!(new.read("a/b.txt").await.as_deref(), Ok("kept"));
        assert!(new.at("empty").is_dir());
        assert!(!new.at("link").exists());
        std::fs::remove_dir_all(old.inside.path()).expect("removed");
        assert_eq!(new.files.take_over(&old.files).await, Ok(false));
    }
}
