//! Removing a run's folder, whatever the run has made of it: closed folders, and trees deeper than any path is long.
//!
//! Every process of the run is gone when this is called, so names keep meaning what they meant.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Removes a folder with everything below it. Instead of descending, each folder's subfolders are moved up beside it,
/// so that depth costs neither descriptors nor stack, and no path grows longer than that of the folder's entries.
pub fn remove_folder(folder: &Path) {
    let mut number = 0_u64;
    loop {
        open(folder);
        let Ok(found) = entries(folder) else { break };
        if found.is_empty() {
            break;
        }
        let mut progress = false;
        for path in found {
            progress |= remove_entry(&path, folder, &mut number);
        }
        // What cannot be removed stays: the next start of a server tries again.
        if !progress {
            break;
        }
    }
    let _ = fs::remove_dir(folder);
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect()
}

/// Removes a file, or a folder whose subfolders are moved to `top`. Tells whether anything was done.
fn remove_entry(path: &Path, top: &Path, number: &mut u64) -> bool {
    let Ok(found) = fs::symlink_metadata(path) else { return false };
    if !found.is_dir() {
        return fs::remove_file(path).is_ok();
    }
    open(path);
    let mut progress = false;
    for inner in entries(path).unwrap_or_default() {
        let is_folder = fs::symlink_metadata(&inner).is_ok_and(|found| found.is_dir());
        progress |= if is_folder {
            *number += 1;
            // Moving a folder changes its `..`, which takes the right to write into it.
            open(&inner);
            fs::rename(&inner, top.join(format!(".removed-{number}"))).is_ok()
        } else {
            fs::remove_file(&inner).is_ok()
        };
    }
    fs::remove_dir(path).is_ok() || progress
}

fn open(folder: &Path) {
    // Where it fails, the removal does too, and is given up.
    let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_and_closed_trees_are_removed() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let folder = place.path().join("run");
        fs::create_dir(&folder).expect("made");
        // Deeper than a path may be long: built by moving a chain below a new top, again and again.
        for _ in 0..3000 {
            let (inner, outer) = (folder.join("d"), folder.join("e"));
            fs::create_dir(&outer).expect("made");
            if inner.exists() {
                fs::rename(&inner, outer.join("d")).expect("moved");
            }
            fs::rename(&outer, &inner).expect("renamed");
        }
        fs::write(folder.join("d/file"), b"x").expect("written");
        let closed = folder.join("closed");
        fs::create_dir_all(closed.join("inner")).expect("made");
        fs::write(closed.join("inner/file"), b"x").expect("written");
        fs::set_permissions(closed.join("inner"), fs::Permissions::from_mode(0o000)).expect("closed");
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).expect("closed");
        std::os::unix::fs::symlink("/etc", folder.join("link")).expect("linked");
        remove_folder(&folder);
        assert!(!folder.exists());
        assert!(Path::new("/etc/passwd").exists());
    }

    #[test]
    fn a_name_like_those_of_moved_folders_does_no_harm() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let folder = place.path().join("run");
        fs::create_dir_all(folder.join("a/b")).expect("made");
        fs::create_dir_all(folder.join(".removed-1/c")).expect("made");
        remove_folder(&folder);
        assert!(!folder.exists());
    }
}
