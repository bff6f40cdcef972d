//! A sandbox whose program has been started before its script is known, and waits for it.
//!
//! The script's name is a named pipe, which the interpreter opens as it opens any script. This side opens it for
//! writing: neither end gets on without the other, so once both have it the interpreter is up, and waits for the first
//! line. Then the real file takes over the name, the same text goes through the pipe, and the pipe is closed. No line
//! and no descriptor of this program is inside.
//!
//! Invariant: the sandbox is reached through the descriptor of its work directory only.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::event::PollFlags;
use rustix::fs::{FileType, Gid, Mode, OFlags, Uid};
use tokio::net::unix::pipe::Sender;
use tokio::task::JoinHandle;

use super::events;
use super::host::COPIED;
use super::plan::Identity;
use crate::sandbox::spec::{Mount, MountSource};
use crate::sandbox::{BoxFuture, Control, ExitStatus, Outcome, Running, StartError, WaitError, Waiting};

/// Permission bits of a script.
const SCRIPT_MODE: u32 = 0o644;

/// What an empty pipe takes at once or not at all (`PIPE_BUF`).
const WHOLE: usize = 4096;

/// A program that waits for its script.
pub struct Waiter {
    running: Running,
    work_dir: OwnedFd,
    /// Never waits.
    pipe: OwnedFd,
    /// Whom the script's file belongs to.
    identity: Identity,
    terms: Terms,
}

/// What was agreed on when the sandbox was built.
pub struct Terms {
    /// The script's path below the work directory.
    script: PathBuf,
    /// The state of files of the host that were copied into the sandbox.
    copied: [Option<FileState>; COPIED.len()],
    /// What the specification shows of the host, each with its device and number: a folder that was made anew under the
    /// same name is not the one that is mounted.
    shown: Vec<(PathBuf, Option<(u64, u64)>)>,
}

impl Terms {
    /// With the host's files as they are now.
    pub fn now(script: &Path, mounts: &[Mount]) -> Self {
        let path = |mount: &Mount| match &mount.source {
            MountSource::Host(path) => Some((path.clone(), number(path))),
            MountSource::Volume(_) => None,
        };
        let shown = mounts.iter().filter_map(path).collect();
        Self { script: script.to_owned(), copied: COPIED.map(FileState::of), shown }
    }

    /// Whether a sandbox that is built now would be the same.
    fn hold(&self) -> bool {
        self.copied == COPIED.map(FileState::of)
            && self.shown.iter().all(|(path, then)| number(path) == *then)
    }
}

fn io_error(context: &'static str) -> impl Fn(io::Error) -> StartError {
    move |source| StartError::Io { context, source }
}

impl Waiter {
    /// Returns once the program waits for its script.
    pub async fn ready(mut running: Running, terms: Terms, identity: Identity) -> Result<Self, StartError> {
        let gone = || StartError::Unsupported("the program ended before it asked for its script".to_owned());
        let work_dir = running.work_dir.take().ok_or_else(gone)?;
        let meeting = Meeting::arrange(&work_dir, &terms.script)?;
        let pipe = tokio::select! {
            biased;
            pipe = meeting.pipe() => pipe.map_err(io_error("opening the script's pipe"))?,
            _ = running.control.wait() => return Err(gone()),
        };
        let failed = |error: rustix::io::Errno| io_error("preparing the script's pipe")(error.into());
        rustix::io::ioctl_fionbio(&pipe, true).map_err(failed)?;
        Ok(Self { running, work_dir, pipe, identity, terms })
    }

    /// The end of the pipe that the interpreter has, too.
    fn other_end(&self) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let end = open_pipe(&self.work_dir, &self.terms.script, flags)?;
        let [opened, ours] = [rustix::fs::fstat(&end)?, rustix::fs::fstat(&self.pipe)?];
        let same = (opened.st_dev, opened.st_ino) == (ours.st_dev, ours.st_ino);
        if same { Ok(end) } else { Err(rustix::io::Errno::INVAL) }
    }

    /// Puts the script in the place of the pipe, whole.
    fn place(&self, content: &[u8]) -> rustix::io::Result<()> {
        let mut beside = OsString::from(".");
        beside.push(self.terms.script.as_os_str());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(SCRIPT_MODE);
        let file = rustix::fs::openat(&self.work_dir, &beside, flags, mode)?;
        // Whatever mask this process has.
        rustix::fs::fchmod(&file, mode)?;
        // For an ordinary user what it makes here is the sandbox's user's already.
        if let Identity::Unused(owner) | Identity::UnusedUnmapped(owner) = self.identity {
            rustix::fs::fchown(&file, Some(Uid::from_raw(owner)), Some(Gid::from_raw(owner)))?;
        }
        write_all(file.as_fd(), content)?;
        rustix::fs::renameat(&self.work_dir, &beside, &self.work_dir, &self.terms.script)
    }
}

impl Waiting for Waiter {
    fn is_fit(&self) -> bool {
        has_reader(self.pipe.as_fd()) && self.terms.hold()
    }

    fn deliver(self: Box<Self>, script: &Arc<[u8]>) -> Result<Running, StartError> {
        let failed = |error: rustix::io::Errno| io_error("handing over the script")(error.into());
        let unread = self.other_end().map_err(failed)?;
        self.place(script).map_err(failed)?;
        let Self { mut running, work_dir, pipe, .. } = *self;
        let sending = hand_over(pipe, script).map_err(io_error("handing over the script"))?;
        // It need not come first: the supervisor looks at the run's end whether it has heard of the beginning or not.
        running.control.begins();
        running.control = Box::new(Delivered { control: running.control, unread, sending, killed: false });
        running.work_dir = Some(work_dir);
        Ok(running)
    }
}

/// Writes the script into the pipe and closes it. What does not fit at once is left to a task.
fn hand_over(pipe: OwnedFd, script: &Arc<[u8]>) -> io::Result<Option<JoinHandle<()>>> {
    if script.len() <= WHOLE {
        rustix::io::retry_on_intr(|| rustix::io::write(&pipe, script))?;
        return Ok(None);
    }
    let pipe = Sender::from_owned_fd(pipe)?;
    let sent = match pipe.try_write(script) {
        Ok(sent) => sent,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        Err(error) => return Err(error),
    };
    Ok((sent < script.len()).then(|| {
        let rest = Arc::clone(script);
        tokio::spawn(async move { send(&pipe, &rest[sent..]).await })
    }))
}

async fn send(pipe: &Sender, mut rest: &[u8]) {
    while !rest.is_empty() && pipe.writable().await.is_ok() {
        match pipe.try_write(rest) {
            Ok(sent) => rest = &rest[sent..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

/// A run that has got its script. Python reads all of it before it runs the first line: a run that was ended with a part of
/// it unread has not begun.
struct Delivered {
    control: Box<dyn Control>,
    /// The pipe's other end. Nothing is read from it; it keeps what the interpreter has not read.
    unread: OwnedFd,
    /// Hands over what did not fit into the pipe, until the run is over: the interpreter may have read enough.
    sending: Option<JoinHandle<()>>,
    killed: bool,
}

impl Delivered {
    fn has_begun(&self) -> bool {
        let sent = self.sending.as_ref().is_none_or(JoinHandle::is_finished);
        sent && rustix::io::ioctl_fionread(&self.unread).is_ok_and(|bytes| bytes == 0)
    }
}

impl Drop for Delivered {
    fn drop(&mut self) {
        if let Some(sending) = &self.sending {
            sending.abort();
        }
    }
}

impl Control for Delivered {
    fn wait(&mut self) -> BoxFuture<'_, Result<Outcome, WaitError>> {
        Box::pin(async move {
            let end = self.control.wait().await;
            let reason = match &end {
                Err(WaitError::Lost(reason)) => reason.clone(),
                Ok(Outcome { status: ExitStatus::Signaled(signal), limit: None, .. }) => {
                    format!("signal {signal}")
                }
                _ => return end,
            };
            if self.killed || self.has_begun() { end } else { Err(WaitError::NotBegun(reason)) }
        })
    }

    fn kill(&mut self) {
        self.killed = true;
        self.control.kill();
    }
}

/// Differs once the file has been written or another one has taken its name.
#[derive(PartialEq, Eq)]
struct FileState {
    number: (u64, u64),
    size: i64,
    written: (i64, u64),
    changed: (i64, u64),
}

impl FileState {
    fn of(path: &str) -> Option<Self> {
        let found = rustix::fs::stat(path).ok()?;
        Some(Self {
            number: (found.st_dev, found.st_ino),
            size: found.st_size,
            written: (found.st_mtime, found.st_mtime_nsec),
            changed: (found.st_ctime, found.st_ctime_nsec),
        })
    }
}

/// Device and number of a file.
fn number(path: &Path) -> Option<(u64, u64)> {
    let found = rustix::fs::stat(path).ok()?;
    Some((found.st_dev, found.st_ino))
}

/// Whether anybody has the other end open.
fn has_reader(pipe: BorrowedFd<'_>) -> bool {
    events::so_far(pipe, PollFlags::OUT).is_ok_and(|come| !come.contains(PollFlags::ERR))
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

/// Waiting in a thread of the pool until the interpreter opens the pipe.
struct Meeting {
    place: Arc<Place>,
    opened: tokio::task::JoinHandle<rustix::io::Result<OwnedFd>>,
}

struct Place {
    work_dir: OwnedFd,
    script: PathBuf,
}

impl Meeting {
    fn arrange(work_dir: &OwnedFd, script: &Path) -> Result<Self, StartError> {
        let work_dir = work_dir.try_clone().map_err(io_error("keeping the work directory"))?;
        let place = Arc::new(Place { work_dir, script: script.to_owned() });
        let there = Arc::clone(&place);
        let opened = tokio::task::spawn_blocking(move || there.open(OFlags::WRONLY));
        Ok(Self { place, opened })
    }

    async fn pipe(mut self) -> io::Result<OwnedFd> {
        let opened = (&mut self.opened).await.map_err(io::Error::other)?;
        Ok(opened?)
    }
}

impl Drop for Meeting {
    /// The thread that nobody came to meet is let go: a reader for a moment will do.
    fn drop(&mut self) {
        if !self.opened.is_finished() {
            let _ = self.place.open(OFlags::RDONLY | OFlags::NONBLOCK);
        }
    }
}

impl Place {
    fn open(&self, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        open_pipe(&self.work_dir, &self.script, flags)
    }
}

/// Opens a named pipe, and nothing else that the name may have come to mean.
fn open_pipe(work_dir: &OwnedFd, script: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(work_dir, script, flags, Mode::empty())?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&opened)?.st_mode);
    if kind == FileType::Fifo { Ok(opened) } else { Err(rustix::io::Errno::INVAL) }
}
