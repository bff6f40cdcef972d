//! Files of a run: in memory, on disk, and those that only an open descriptor still names.

use std::collections::HashSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{Mode, OFlags};

use super::Changes;
use super::members::{Members, View};
use crate::launcher::sys;

/// The share of a limit by which a file system has to have filled before it is looked at closely.
const STEP: u64 = 16;

/// A closer look may take this share of the time.
const EFFORT: u32 = 10;

/// A scratch file system is full when less than this share of it is free.
const FULL: u64 = 16;

/// What is known of a run's files.
pub struct Files {
    folders: Vec<PathBuf>,
    scratch: Option<OwnedFd>,
    memory_folder: Option<PathBuf>,
    /// Bytes in files of memory, of the whole machine, when the run began.
    shared_at_first: u64,
    /// Bytes taken on the file system of the first folder, by whomever, when the run began.
    taken_at_first: u64,
    disk: Look,
    memory: Look,
}

/// The last close look at something.
struct Look {
    /// What was found, in bytes.
    found: u64,
    /// What the cheap figure said then.
    seen: u64,
    /// Not again before this time.
    not_before: Instant,
}

impl Look {
    fn new(seen: u64) -> Self {
        Self { found: 0, seen, not_before: Instant::now() }
    }

    /// Looks closely where the cheap figure has grown by a step since, and enough time has passed.
    fn again(&mut self, cheap: u64, limit: u64, look: impl FnOnce() -> u64) -> u64 {
        let grown = cheap.saturating_sub(self.seen) > limit / STEP || self.found > limit / 2;
        if grown && Instant::now() >= self.not_before {
            let start = Instant::now();
            self.found = look();
            self.seen = cheap;
            self.not_before = Instant::now() + start.elapsed() * EFFORT;
        } else if cheap < self.seen {
            self.seen = cheap;
        }
        self.found
    }
}

impl Files {
    pub fn new(folders: Vec<PathBuf>, scratch: Option<OwnedFd>, memory_folder: Option<PathBuf>) -> Self {
        let shared = sys::shared_memory_of_machine();
        let taken = folders.first().map_or(0, |folder| taken(folder));
        let (disk, memory) = (Look::new(taken), Look::new(shared));
        Self { folders, scratch, memory_folder, shared_at_first: shared, taken_at_first: taken, disk, memory }
    }

    /// Bytes of files in memory: those of the run's own file system, and files without a name.
    pub fn in_memory(&mut self, members: &Members, limit: u64) -> u64 {
        let folder = self.memory_folder.as_ref().map_or(0, |folder| size_of(folder, limit));
        let scratch = self.scratch_bytes().saturating_add(folder);
        let shared = sys::shared_memory_of_machine();
        let first = self.shared_at_first;
        let nameless = self.memory.again(shared.saturating_sub(scratch), limit, || {
            match nameless(members, Kind::Memory) {
                Some(bytes) => bytes,
                // Some process closes itself to looks: what the machine has more of counts as the run's.
                None => shared.saturating_sub(first).saturating_sub(scratch),
            }
        });
        scratch.saturating_add(nameless)
    }

    /// Bytes of files on the host's disk.
    pub fn on_disk(&mut self, members: &Members, limit: u64) -> u64 {
        let Some(first) = self.folders.first() else { return 0 };
        let (cheap, folders) = (taken(first), &self.folders);
        self.disk.again(cheap, limit, || {
            let named: u64 = folders.iter().map(|folder| size_of(folder, limit)).sum();
            all_on_disk(named, nameless(members, Kind::Disk), cheap.saturating_sub(self.taken_at_first))
        })
    }

    fn scratch_bytes(&self) -> u64 {
        let Some(found) = self.scratch.as_ref().and_then(|folder| rustix::fs::fstatvfs(folder).ok()) else {
            return 0;
        };
        found.f_blocks.saturating_sub(found.f_bfree) * found.f_frsize
    }
}

/// The run's own file system, which the kernel keeps within its size: whether it was full at some time.
pub struct Scratch {
    folder: OwnedFd,
    full: bool,
    changes: Changes,
}

impl Scratch {
    /// Any folder of it will do.
    pub fn new(folder: OwnedFd) -> Self {
        Self { folder, full: false, changes: Changes::default() }
    }

    /// Looks how full it is.
    pub fn look(&mut self) {
        let Ok(found) = rustix::fs::fstatvfs(&self.folder) else { return };
        self.full |= found.f_bfree <= found.f_blocks / FULL || found.f_ffree == 0;
        self.changes.note(found.f_bfree);
    }

    /// Whether that has changed lately.
    pub fn moves(&self) -> bool {
        self.changes.lately()
    }

    /// Whether it was full when it was looked at.
    pub fn was_full(&self) -> bool {
        self.full
    }
}

/// Bytes taken on the file system of a folder, by whomever. Files count too, so that a flood of empty ones is seen.
fn taken(folder: &Path) -> u64 {
    const FILE: u64 = 4096;
    let Ok(found) = rustix::fs::statvfs(folder) else { return 0 };
    let bytes = found.f_blocks.saturating_sub(found.f_bfree) * found.f_frsize;
    bytes + found.f_files.saturating_sub(found.f_ffree) * FILE
}

/// Size of a tree on disk; an entry counts at least a block. Looking ends where the limit is passed, and does not
/// follow links.
fn size_of(folder: &Path, limit: u64) -> u64 {
    const BLOCK: u64 = 4096;
    let (mut open, mut sum) = (vec![folder.to_owned()], 0_u64);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(found) = entry.metadata() else { continue };
            sum = sum.saturating_add((found.blocks() * 512).max(BLOCK));
            if found.is_dir() {
                open.push(entry.path());
            }
            if sum > limit {
                return sum;
            }
        }
    }
    sum
}

/// Bytes of named and of nameless files. Where some process closes itself to looks, what the file system has more of since
/// the run began counts as the run's.
fn all_on_disk(named: u64, nameless: Option<u64>, grown: u64) -> u64 {
    nameless.map_or(named.max(grown), |nameless| named.saturating_add(nameless))
}

/// What a file without a name takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Memory,
    Disk,
}

/// Bytes of files that have no name and that some process of the run has open. `None` where one cannot be looked into.
fn nameless(members: &Members, kind: Kind) -> Option<u64> {
    let mut seen = HashSet::new();
    let mut sum = 0_u64;
    for pid in members.pids() {
        sum = sum.saturating_add(nameless_of(members.view(), pid, kind, &mut seen)?);
    }
    Some(sum)
}

fn nameless_of(view: &View, pid: i32, kind: Kind, seen: &mut HashSet<(u64, u64)>) -> Option<u64> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = match rustix::fs::openat(view.proc(), format!("{pid}/fd"), flags, Mode::empty()) {
        Ok(folder) => folder,
        // It has ended meanwhile.
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::SRCH) => return Some(0),
        Err(_) => return None,
    };
    let mut sum = 0_u64;
    for entry in rustix::fs::Dir::read_from(&folder).ok()?.flatten() {
        let Ok(found) = rustix::fs::statat(&folder, entry.file_name(), rustix::fs::AtFlags::empty()) else {
            continue;
        };
        let regular = rustix::fs::FileType::from_raw_mode(found.st_mode).is_file();
        if !regular || found.st_nlink > 0 || !seen.insert((found.st_dev, found.st_ino)) {
            continue;
        }
        let link = rustix::fs::readlinkat(&folder, entry.file_name(), Vec::new()).unwrap_or_default();
        let in_memory = link.to_bytes().starts_with(b"/memfd:");
        if in_memory == (kind == Kind::Memory) {
            sum = sum.saturating_add(found.st_blocks.unsigned_abs() * 512);
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_measured_up_to_the_limit() {
        let place = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(place.path().join("inner")).expect("made");
        fs::write(place.path().join("inner/file"), vec![1; 100_000]).expect("written");
        std::os::unix::fs::symlink("/", place.path().join("link")).expect("linked");
        let size = size_of(place.path(), u64::MAX);
        assert!((100_000..300_000).contains(&size), "{size}");
        assert!(size_of(place.path(), 1) < size);
    }

    #[test]
    fn a_process_that_closes_itself_to_looks_hides_nothing() {
        assert_eq!(all_on_disk(3, Some(4), 100), 7);
        assert_eq!(all_on_disk(3, None, 100), 100);
        assert_eq!(all_on_disk(3, None, 1), 3);
    }

    #[test]
    fn a_deleted_file_counts_as_long_as_it_is_open() {
        let members = Members::new(View::descendants().expect("processes are shown"));
        let itself = i32::try_from(std::process::id()).expect("an id");
        let mut file = tempfile::tempfile().expect("a file without a name");
        std::io::Write::write_all(&mut file, &vec![1; 200_000]).expect("written");
        file.sync_all().expect("on disk");
        let count = |kind| nameless_of(members.view(), itself, kind, &mut HashSet::new()).expect("readable");
        assert!(count(Kind::Disk) >= 200_000);
        let memory = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).expect("made");
        let before = count(Kind::Memory);
        rustix::io::write(&memory, &vec![1; 100_000]).expect("written");
        assert!(count(Kind::Memory) >= before + 100_000);
    }
}
