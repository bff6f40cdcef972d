//! The root: an empty file system in memory, filled by the plan's steps, read-only in the end but for the scratch
//! folders.
//!
//! Sources are opened without following any symbolic link and are attached by descriptor, targets are made and
//! opened below the new root only: no name is looked up twice, and none outside its tree.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::mount::{MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags};

use super::COPY_BUFFER;
use super::receive::Reporter;
use super::stage::{Failed, Restricted, Worker, absent, enforced};
use super::sys::{self, MountAttributes};
use crate::sandbox::facts::LayerStatus;
use crate::sandbox::linux::plan::{Cover, Isolation, MaskedEntry, RootStep};
use crate::sandbox::spec::{Access, WORK_DIR};

mod old_kernel;

const STAGE: &str = "mounts";

const ATTR_RDONLY: u64 = 0x1;
const ATTR_NOSUID: u64 = 0x2;
const ATTR_NODEV: u64 = 0x4;

/// Where the main program's own folder of the process file system is shown.
const OWN_PROC: &str = "proc/self";

/// Folder with all that covers entries of `/proc`, until it lies below that itself.
const COVERS: &str = ".covers";
/// Covers files.
const COVER_FILE: &str = ".covers/file";
/// Covers folders.
const COVER_DIRECTORY: &str = ".covers/directory";

/// A root on its way: steps are carried out one by one.
pub struct Builder {
    root: Rc<OwnedFd>,
    /// Folders that were made, open: each is made and looked up once, whatever lies in it.
    folders: HashMap<PathBuf, Rc<OwnedFd>>,
    owner: u32,
    writable_proc: Option<OwnedFd>,
}

/// Contents of files, which come on the socket.
pub struct Contents<'a> {
    sizes: std::slice::Iter<'a, u64>,
    reporter: &'a Reporter,
}

impl<'a> Contents<'a> {
    /// Of these sizes, in bytes.
    pub fn of(sizes: &'a [u64], reporter: &'a Reporter) -> Self {
        Self { sizes: sizes.iter(), reporter }
    }

    /// For steps that need none.
    pub fn none(reporter: &'a Reporter) -> Self {
        Self::of(&[], reporter)
    }
}

/// What is left in hand when the root stands.
pub struct Root {
    /// The work directory, for the server.
    pub work_dir: OwnedFd,
    /// The process file system as a mount that nobody else can reach, for writing id maps. `None` where it is not the
    /// run's own.
    pub proc: Option<OwnedFd>,
    /// Whether the host's root still has to be taken away.
    pub leaving: Leaving,
}

/// When the host's root, which lies on the new one after the change, is taken away. The kernel does that at once and then
/// waits until no processor can be looking any more, which takes milliseconds on a machine with other work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// Before anything else: nobody may do it later.
    Now,
    /// By the init, while the worker goes on; the worker sees to it before it goes further than its own stages.
    Meanwhile,
}

impl Leaving {
    /// An init that becomes another user loses the right to.
    fn of(isolation: &Isolation) -> Self {
        if isolation.identity.owns_namespaces() { Self::Meanwhile } else { Self::Now }
    }
}

/// Takes the host's root away.
pub fn leave_host() -> Result<(), Failed> {
    rustix::mount::unmount("/", UnmountFlags::DETACH)
        .map_err(|error| Failed::errno(STAGE, "leaving the host's root", error))
}

/// How long the worker waits for the host's root to go.
const LEAVING_TAKES: Duration = Duration::from_secs(10);

impl Worker<Restricted> {
    /// Goes on once the host's root is gone, where there is a root of the run's own.
    pub fn see_host_left(mut self, has_root: bool) -> Result<Self, Failed> {
        if has_root {
            host_is_left()?;
            self.clock.mark("host left");
        }
        Ok(self)
    }
}

/// Returns once the host's root is gone. Nobody can say that it is, since whoever takes it away is still inside the call;
/// but what lies on the root is seen by looking up `/..`.
fn host_is_left() -> Result<(), Failed> {
    let number = |path: &str| {
        let found = rustix::fs::stat(path).map_err(failed("looking at", Path::new("")))?;
        Ok((found.st_dev, found.st_ino))
    };
    let deadline = Instant::now() + LEAVING_TAKES;
    while number("/")? != number("/..")? {
        if Instant::now() > deadline {
            return Err(Failed::plain(STAGE, "the host's root is still there"));
        }
        std::thread::yield_now();
    }
    Ok(())
}

/// What a step takes from the host.
struct Source {
    path: PathBuf,
    attributes: u64,
}

fn source_of(step: &RootStep) -> Option<Source> {
    match step {
        RootStep::Bind { source, access, .. } => {
            let read_only = if *access == Access::ReadOnly { ATTR_RDONLY } else { 0 };
            Some(Source { path: source.clone(), attributes: read_only | ATTR_NOSUID | ATTR_NODEV })
        }
        RootStep::OwnProc => {
            let attributes = ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV;
            Some(Source { path: "/proc".into(), attributes })
        }
        RootStep::Device { name } => {
            Some(Source { path: Path::new("/dev").join(name), attributes: ATTR_NOSUID })
        }
        _ => None,
    }
}

impl Source {
    /// A detached copy of the mount tree at the path, with its attributes set.
    fn open(&self) -> Result<OwnedFd, Failed> {
        let name = || self.path.display().to_string();
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::NO_SYMLINKS;
        let found = rustix::fs::openat2(CWD, &self.path, flags, Mode::empty(), resolve)
            .map_err(|error| Failed::errno(STAGE, format!("opening {}", name()), error))?;
        let tree = clone_tree(found.as_fd(), "", true)
            .map_err(|error| Failed::errno(STAGE, format!("copying the mount of {}", name()), error))?;
        let attributes = MountAttributes { set: self.attributes, ..MountAttributes::default() };
        match sys::mount_setattr(tree.as_fd(), &attributes, true) {
            // Set after it is attached, in the old way.
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => Ok(tree),
            Err(error) => Err(Failed::io(STAGE, format!("setting the attributes of {}", name()), &error)),
            Ok(()) => Ok(tree),
        }
    }
}

fn clone_tree(base: BorrowedFd<'_>, path: impl AsRef<Path>, recursive: bool) -> rustix::io::Result<OwnedFd> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    flags.set(OpenTreeFlags::AT_RECURSIVE, recursive);
    let path = path.as_ref();
    flags.set(OpenTreeFlags::AT_EMPTY_PATH, path.as_os_str().is_empty());
    rustix::mount::open_tree(base, path, flags)
}

fn open_below(folder: BorrowedFd<'_>, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(folder, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}

/// Makes a mount read-only. `false` on an old kernel, where that is done once the root is entered.
fn read_only(mount: &OwnedFd) -> std::io::Result<bool> {
    let attributes = MountAttributes { set: ATTR_RDONLY, ..MountAttributes::default() };
    match sys::mount_setattr(mount.as_fd(), &attributes, false) {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Mounts the empty file system over the root of the host and opens it. Nothing is covered by that: paths are still looked
/// up from the root below, and only `/..` leads to what lies over it.
fn new_root(isolation: &Isolation) -> Result<OwnedFd, Failed> {
    let options =
        format!("mode=0755,size={},nr_inodes={}", isolation.scratch_bytes, isolation.scratch_inodes);
    let options = std::ffi::CString::new(options).unwrap_or_default();
    rustix::mount::mount("tmpfs", "/", "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())
        .map_err(|error| Failed::errno(STAGE, "mounting the new root", error))?;
    rustix::fs::open("/..", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| Failed::errno(STAGE, "opening the new root", error))
}

/// A target below the new root, without its leading slash.
fn below(target: &Path) -> Result<&Path, Failed> {
    target
        .strip_prefix("/")
        .map_err(|_| Failed::plain(STAGE, format!("{} is no absolute path", target.display())))
}

impl Builder {
    /// An empty root.
    pub fn begin(isolation: &Isolation) -> Result<Self, Failed> {
        // Permission bits are those of the plan.
        rustix::process::umask(Mode::empty());
        rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
            .map_err(|error| Failed::errno(STAGE, "detaching from the host's mounts", error))?;
        let owner = isolation.identity.owner_while_mounting();
        let root = Rc::new(new_root(isolation)?);
        Ok(Self { root, folders: HashMap::new(), owner, writable_proc: None })
    }

    /// Carries steps out, in their order.
    pub fn carry_out(&mut self, steps: &[RootStep], mut contents: Contents<'_>) -> Result<(), Failed> {
        steps.iter().try_for_each(|step| self.step(step, &mut contents))
    }

    fn step(&mut self, step: &RootStep, contents: &mut Contents<'_>) -> Result<(), Failed> {
        let source = source_of(step).map(|source| source.open()).transpose()?;
        match step {
            RootStep::Directory { target } => self.directory(below(target)?, 0o755).map(drop),
            RootStep::Scratch { target, mode } => self.scratch(below(target)?, *mode),
            RootStep::Bind { target, directory, .. } => self.attach(source, below(target)?, *directory),
            RootStep::Device { name } => self.attach(source, &Path::new("dev").join(name), false),
            RootStep::Symlink { target, to } => self.symlink(below(target)?, to),
            RootStep::Text { target, text } => self.file(below(target)?, text.as_bytes(), 0o444),
            RootStep::Content { target } => self.content(below(target)?, contents),
            RootStep::Fifo { target } => self.fifo(below(target)?),
            RootStep::Proc { masked } => self.proc(masked),
            // The caller's, until the main program has found its own in it.
            RootStep::OwnProc => {
                self.directory(Path::new(OWN_PROC), 0o555)?;
                self.attach(source, Path::new(OWN_PROC), true)
            }
            RootStep::Devpts => self.devpts(),
        }
    }

    /// Makes a folder and the folders above it, each in the one before: a link is followed nowhere, since it may lead
    /// out of the new root, into the host's.
    fn directory(&mut self, target: &Path, mode: u32) -> Result<Rc<OwnedFd>, Failed> {
        if target.as_os_str().is_empty() {
            return Ok(Rc::clone(&self.root));
        }
        if let Some(folder) = self.folders.get(target) {
            return Ok(Rc::clone(folder));
        }
        let (above, name) = self.parent(target)?;
        match rustix::fs::mkdirat(&above, name, Mode::from_raw_mode(mode)) {
            // Below a read-only mount that is there already, the folder has to be there too.
            Ok(()) | Err(rustix::io::Errno::EXIST | rustix::io::Errno::ROFS) => {}
            Err(error) => return Err(failed("making", target)(error)),
        }
        let folder = open_below(above.as_fd(), name, OFlags::PATH | OFlags::DIRECTORY);
        let folder = Rc::new(folder.map_err(failed("opening", target))?);
        self.folders.insert(target.to_owned(), Rc::clone(&folder));
        Ok(folder)
    }

    /// Attaches a mount. What was open there lies below it now and is forgotten.
    fn attach_at(
        &mut self,
        tree: BorrowedFd<'_>,
        place: BorrowedFd<'_>,
        target: &Path,
    ) -> Result<(), Failed> {
        self.folders.retain(|folder, _| !folder.starts_with(target));
        attach(tree, place).map_err(failed("attaching", target))
    }

    /// Gives a file or folder to the run's user, where that is not the one who mounts.
    fn own(&self, made: &OwnedFd, target: &Path) -> Result<(), Failed> {
        if rustix::process::geteuid().as_raw() == self.owner {
            return Ok(());
        }
        let (user, group) = (Uid::from_raw(self.owner), Gid::from_raw(self.owner));
        rustix::fs::chownat(made, "", Some(user), Some(group), AtFlags::EMPTY_PATH)
            .map_err(failed("setting the owner of", target))
    }

    fn open(&self, target: &Path, flags: OFlags) -> Result<OwnedFd, Failed> {
        open_below(self.root.as_fd(), target, flags).map_err(failed("opening", target))
    }

    /// A folder that stays writable when the root becomes read-only: a mount of its own.
    fn scratch(&mut self, target: &Path, mode: u32) -> Result<(), Failed> {
        let folder = self.directory(target, mode)?;
        self.own(&folder, target)?;
        let tree = clone_tree(folder.as_fd(), "", false).map_err(failed("copying", target))?;
        self.attach_at(tree.as_fd(), folder.as_fd(), target)
    }

    /// Attaches what was taken from the host.
    fn attach(&mut self, source: Option<OwnedFd>, target: &Path, directory: bool) -> Result<(), Failed> {
        let Some(tree) = source else {
            return Err(Failed::plain(STAGE, format!("no source for /{}", target.display())));
        };
        let place =
            if directory { self.directory(target, 0o755)? } else { Rc::new(self.place_for_file(target)?) };
        self.attach_at(tree.as_fd(), place.as_fd(), target)
    }

    /// A file to attach another one to; one that is there already will do.
    fn place_for_file(&mut self, target: &Path) -> Result<OwnedFd, Failed> {
        match self.create(target, 0o444) {
            Err(failed) if failed.0.errno != Some(libc::EEXIST) => Err(failed),
            _ => self.open(target, OFlags::PATH),
        }
    }

    /// The folder above, and the name in it.
    fn parent<'t>(&mut self, target: &'t Path) -> Result<(Rc<OwnedFd>, &'t Path), Failed> {
        let name = target.file_name().map(Path::new);
        let name = name.ok_or_else(|| Failed::plain(STAGE, format!("/{} has no name", target.display())))?;
        Ok((self.directory(target.parent().unwrap_or(Path::new("")), 0o755)?, name))
    }

    fn symlink(&mut self, target: &Path, to: &Path) -> Result<(), Failed> {
        let (folder, name) = self.parent(target)?;
        rustix::fs::symlinkat(to, &folder, name).map_err(failed("linking", target))
    }

    fn create(&mut self, target: &Path, mode: u32) -> Result<OwnedFd, Failed> {
        let (folder, name) = self.parent(target)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&folder, name, flags, Mode::from_raw_mode(mode)).map_err(failed("making", target))
    }

    fn file(&mut self, target: &Path, content: &[u8], mode: u32) -> Result<(), Failed> {
        let file = self.create(target, mode)?;
        write_all(file.as_fd(), content).map_err(failed("writing", target))
    }

    /// Copies the next content from the socket.
    fn content(&mut self, target: &Path, contents: &mut Contents<'_>) -> Result<(), Failed> {
        self.folders_above(target)?;
        let file = self.create(target, 0o644)?;
        self.own(&file, target)?;
        let mut left = contents.sizes.next().copied().unwrap_or_default();
        let mut buffer = vec![0; COPY_BUFFER];
        while left > 0 {
            let size = usize::try_from(left).unwrap_or(COPY_BUFFER).min(COPY_BUFFER);
            contents
                .reporter
                .read_exact(&mut buffer[..size])
                .map_err(|error| Failed::io(STAGE, format!("reading /{}", target.display()), &error))?;
            write_all(file.as_fd(), &buffer[..size]).map_err(failed("writing", target))?;
            left -= size as u64;
        }
        Ok(())
    }

    /// Makes the folders above a file of the run that are not there yet: they are the run's, too.
    fn folders_above(&mut self, target: &Path) -> Result<(), Failed> {
        let mut above: Vec<&Path> =
            target.ancestors().skip(1).filter(|one| !one.as_os_str().is_empty()).collect();
        above.reverse();
        for folder in above {
            if self.open(folder, OFlags::PATH | OFlags::DIRECTORY).is_err() {
                let made = self.directory(folder, 0o755)?;
                self.own(&made, folder)?;
            }
        }
        Ok(())
    }

    fn fifo(&mut self, target: &Path) -> Result<(), Failed> {
        let (folder, name) = self.parent(target)?;
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(&folder, name, FileType::Fifo, mode, 0).map_err(failed("making", target))?;
        self.own(&self.open(target, OFlags::PATH)?, target)
    }

    /// A fresh process file system, read-only, with kernel-wide entries covered.
    fn proc(&mut self, masked: &[MaskedEntry]) -> Result<(), Failed> {
        let target = Path::new("proc");
        let place = self.directory(target, 0o755)?;
        rustix::process::fchdir(&place).map_err(failed("entering", target))?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        rustix::mount::mount("proc", ".", "proc", flags, None).map_err(failed("mounting", target))?;
        let proc = self.open(target, OFlags::PATH | OFlags::DIRECTORY)?;
        let writable = clone_tree(proc.as_fd(), "", false).map_err(failed("copying", target))?;
        self.writable_proc = Some(writable);
        rustix::process::fchdir(&proc).map_err(failed("entering", target))?;
        rustix::mount::mount_remount(".", flags | MountFlags::RDONLY | MountFlags::BIND, c"")
            .map_err(failed("making read-only", target))?;
        self.folders.remove(target);
        self.cover(masked)?;
        self.hide_covers(&place)
    }

    /// Covers entries of the new process file system. Here names will do: both sides are this launcher's own.
    fn cover(&mut self, masked: &[MaskedEntry]) -> Result<(), Failed> {
        self.file(Path::new(COVER_FILE), b"", 0)?;
        self.directory(Path::new(COVER_DIRECTORY), 0)?;
        rustix::process::fchdir(&self.root).map_err(failed("entering", Path::new("")))?;
        self.close(Path::new(COVERS))?;
        for entry in masked {
            let cover = match &entry.cover {
                Cover::File => Path::new(COVER_FILE),
                Cover::Directory => Path::new(COVER_DIRECTORY),
                Cover::Folder(folder) => below(folder)?,
            };
            let covered = Path::new("proc").join(&entry.name);
            match rustix::mount::mount_bind(cover, &covered) {
                // An entry that this process namespace does not have.
                Ok(()) | Err(rustix::io::Errno::NOENT) => {}
                Err(error) => return Err(failed("covering", &covered)(error)),
            }
        }
        Ok(())
    }

    /// Moves the covers into the folder on which `/proc` is mounted, where no name leads. What they cover stays covered.
    fn hide_covers(&self, below_proc: &OwnedFd) -> Result<(), Failed> {
        let covers = Path::new(COVERS);
        rustix::mount::unmount(covers, UnmountFlags::DETACH).map_err(failed("opening", covers))?;
        rustix::fs::renameat(&self.root, covers, below_proc, covers).map_err(failed("hiding", covers))
    }

    /// Puts a read-only mount of an entry over the entry itself: copies of that are read-only too.
    fn close(&mut self, cover: &Path) -> Result<(), Failed> {
        let place = self.open(cover, OFlags::PATH)?;
        let tree = clone_tree(place.as_fd(), "", false).map_err(failed("copying", cover))?;
        read_only(&tree).map_err(|error| Failed::io(STAGE, "making a cover read-only", &error))?;
        self.attach_at(tree.as_fd(), place.as_fd(), cover)
    }

    fn devpts(&mut self) -> Result<(), Failed> {
        let target = Path::new("dev/pts");
        let place = self.directory(target, 0o755)?;
        rustix::process::fchdir(&place).map_err(failed("entering", target))?;
        let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
        rustix::mount::mount("devpts", ".", "devpts", flags, c"newinstance,ptmxmode=0666,mode=0620")
            .map_err(failed("mounting", target))
    }

    /// Makes the root read-only, enters it and leaves the host's behind, now or later.
    pub fn enter(self, isolation: &Isolation) -> Result<Root, Failed> {
        let said = |what: &'static str| move |error| Failed::errno(STAGE, what, error);
        let work = self.open(below(Path::new(WORK_DIR))?, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let attributes_are_set =
            read_only(&self.root).map_err(|error| Failed::io(STAGE, "making the root read-only", &error))?;
        rustix::process::fchdir(&self.root).map_err(said("entering the new root"))?;
        rustix::process::pivot_root(".", ".").map_err(said("changing the root"))?;
        rustix::process::chdir("/").map_err(said("entering the root"))?;
        let leaving = if attributes_are_set { Leaving::of(isolation) } else { Leaving::Now };
        if leaving == Leaving::Now {
            leave_host()?;
        }
        if !attributes_are_set {
            old_kernel::set_attributes(&isolation.root)?;
        }
        Ok(Root { work_dir: work, proc: self.writable_proc, leaving })
    }
}

/// In the main program's process, where the root has no process file system of its own: shows its folder of the outer
/// one, and takes the rest away.
pub fn show_own_process(steps: &[RootStep]) -> Result<(), Failed> {
    if !steps.contains(&RootStep::OwnProc) {
        return Ok(());
    }
    let shown = Path::new("/").join(OWN_PROC);
    let folder = |path: &Path| {
        rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    };
    // The link that stands for the process that asks.
    let own = folder(&shown.join("self")).map_err(failed("opening", &shown))?;
    let tree = clone_tree(own.as_fd(), "", false).map_err(failed("copying", &shown))?;
    rustix::mount::unmount(&shown, UnmountFlags::DETACH).map_err(failed("leaving", &shown))?;
    let place = folder(&shown).map_err(failed("opening", &shown))?;
    attach(tree.as_fd(), place.as_fd()).map_err(failed("attaching", &shown))
}

/// Files in memory cannot be executed in this process namespace, unless they are made as executable, which the
/// system-call filter refuses. The setting came with Linux 6.3.
pub fn seal_memory_files(proc: Option<&OwnedFd>) -> LayerStatus {
    let name = super::memory_files::LAYER;
    let Some(proc) = proc else { return absent(name, "an outer container keeps the setting") };
    let written =
        rustix::fs::openat(proc, "sys/vm/memfd_noexec", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
            .and_then(|setting| rustix::io::write(&setting, b"1"));
    match written {
        Ok(_) => enforced(name),
        Err(rustix::io::Errno::NOENT) => absent(name, "the kernel has no such setting (Linux 6.3)"),
        Err(error) => absent(name, format!("the kernel's setting is root's: {error}")),
    }
}

fn failed<'a>(what: &'a str, target: &'a Path) -> impl Fn(rustix::io::Errno) -> Failed + use<'a> {
    move |error| Failed::errno(STAGE, format!("{what} /{}", target.display()), error)
}

fn attach(tree: BorrowedFd<'_>, place: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(tree, "", place, "", flags)
}

fn write_all(file: BorrowedFd<'_>, mut content: &[u8]) -> rustix::io::Result<()> {
    while !content.is_empty() {
        match rustix::io::write(file, content) {
            Ok(written) => content = &content[written..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
