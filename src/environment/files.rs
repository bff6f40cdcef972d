//! Walks over our own folders: making them read-only, measuring, deleting. Never follows a symbolic link.

use std::fs;
use std::io;
use std::path::Path;

/// Changes whenever the file is replaced or written.
pub fn fingerprint(path: &Path) -> Option<String> {
    let meta = path.metadata().ok()?;
    let changed = meta.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(&meta);
    #[cfg(not(unix))]
    let inode = 0;
    Some(format!("{}-{}-{inode}", changed.as_nanos(), meta.len()))
}

/// Removes a tree, read-only folders included. What cannot be removed stays; the next sweep tries again.
pub fn remove_tree(path: &Path) {
    if fs::remove_dir_all(path).is_ok() {
        return;
    }
    let _ = open_folders(path);
    let _ = fs::remove_dir_all(path);
}

fn open_folders(path: &Path) -> io::Result<()> {
    set_mode(path, 0o755)?;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            let _ = open_folders(&entry.path());
        }
    }
    Ok(())
}

/// Whether folders are closed too, or still take new bytecode files from their owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folders {
    /// The owner may still add files.
    Open,
    /// Nobody adds files.
    Closed,
}

/// Makes a tree readable to everyone and its files writable to nobody. Gives its size on disk in bytes.
pub fn seal(path: &Path, folders: Folders) -> io::Result<u64> {
    let mut size = 0;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let meta = fs::symlink_metadata(entry.path())?;
        if meta.is_dir() {
            size += seal(&entry.path(), folders)?;
        } else if meta.is_file() {
            set_mode(&entry.path(), if executable(&meta) { 0o555 } else { 0o444 })?;
            size += disk_size(&meta);
        }
    }
    set_mode(path, if folders == Folders::Open { 0o755 } else { 0o555 })?;
    Ok(size + disk_size(&fs::symlink_metadata(path)?))
}

/// Size of a tree on disk in bytes; what cannot be read counts nothing.
pub fn tree_size(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else { return 0 };
    entries
        .flatten()
        .map(|entry| match fs::symlink_metadata(entry.path()) {
            Ok(meta) if meta.is_dir() => tree_size(&entry.path()) + disk_size(&meta),
            Ok(meta) => disk_size(&meta),
            Err(_) => 0,
        })
        .sum()
}

/// Bytes that may still be written where `path` is; `None` where that cannot be told.
pub fn free_space(path: &Path) -> Option<u64> {
    #[cfg(target_os = "linux")]
    {
        let space = rustix::fs::statvfs(path).ok()?;
        Some(space.f_bavail.saturating_mul(space.f_frsize))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = path;
        None
    }
}

/// Writes a file beside its final name and renames it into place.
pub fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let beside = path.with_extension(format!("tmp-{}", super::data_dir::unique()));
    fs::write(&beside, content)?;
    fs::rename(&beside, path).inspect_err(|_| {
        let _ = fs::remove_file(&beside);
    })
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn set_mode(_: &Path, _: u32) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn executable(meta: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    meta.permissions().mode() & 0o100 != 0
}

#[cfg(not(unix))]
fn executable(_: &fs::Metadata) -> bool {
    false
}

#[cfg(unix)]
fn disk_size(meta: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(meta) * 512
}

#[cfg(not(unix))]
fn disk_size(meta: &fs::Metadata) -> u64 {
    meta.len()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).expect("there").permissions().mode() & 0o777
    }

    #[test]
    fn a_sealed_tree_is_read_only_and_its_links_are_not_followed() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let outside = place.path().join("outside");
        fs::write(&outside, b"x").expect("written");
        let tree = place.path().join("tree");
        fs::create_dir_all(tree.join("bin")).expect("made");
        fs::write(tree.join("bin/tool"), b"x").expect("written");
        set_mode(&tree.join("bin/tool"), 0o755).expect("set");
        std::os::unix::fs::symlink(&outside, tree.join("bin/link")).expect("linked");
        let before = mode(&outside);
        assert!(seal(&tree, Folders::Closed).expect("sealed") > 0);
        assert_eq!((mode(&tree), mode(&tree.join("bin/tool"))), (0o555, 0o555));
        assert_eq!(mode(&outside), before);
        remove_tree(&tree);
        assert!(!tree.exists() && outside.exists());
    }
}
