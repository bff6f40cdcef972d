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
    assert_eq!((listing.entries.len(), listing.count, listing.more), (SHOWN_ENTRIES, COUNTED_ENTRIES, true));
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
    let (outside, place, temporary) = (space.outside.path().to_owned(), space.at("sw"), space.at("sw.tmp"));
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
