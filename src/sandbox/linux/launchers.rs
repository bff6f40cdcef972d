//! Where launchers come from: the nursery, this program executed once more, forks one for each run.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};

use rustix::pipe::PipeFlags;
use tokio::net::UnixStream;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};

use super::ends::Ends;
use crate::launcher::nursery::DESCRIPTORS;
use crate::launcher::sys::rights;
use crate::sandbox::StartError;

/// Bytes that a program may be ahead of the reader of its output.
const OUTPUT_PIPE: usize = 256 << 10;

/// A launcher that waits for its plan.
pub struct Launcher {
    /// Carries the plan in and messages out. Its other end is closed when every process of the launch has ended.
    pub socket: UnixStream,
    /// What the program will print to standard output.
    pub stdout: Receiver,
    /// What the program will print to standard error.
    pub stderr: Receiver,
}

/// The nursery of one backend.
pub struct Launchers {
    /// This program, held open since the start: an upgrade of the file on disk does not matter.
    executable: Option<File>,
    nursery: Mutex<Option<Nursery>>,
    /// Of what was launched.
    pub ends: Ends,
}

struct Nursery {
    socket: StdUnixStream,
    /// Collected by the runtime when it has ended.
    _child: Child,
}

fn io_error(context: &'static str) -> impl Fn(io::Error) -> StartError {
    move |source| StartError::Io { context, source }
}

impl Launchers {
    /// Opens the running program's own file. Starts nothing.
    pub fn open() -> Self {
        Self {
            executable: File::open("/proc/self/exe").ok(),
            nursery: Mutex::default(),
            ends: Ends::default(),
        }
    }

    /// A new launcher.
    pub fn start(&self) -> Result<Launcher, StartError> {
        let (ours, theirs) = StdUnixStream::pair().map_err(io_error("making a socket pair"))?;
        let (stdout, stdout_end) = output_pipe().map_err(io_error("making a pipe"))?;
        let (stderr, stderr_end) = output_pipe().map_err(io_error("making a pipe"))?;
        self.ask(&[theirs.into(), stdout_end, stderr_end]).map_err(io_error("starting the launcher"))?;
        let prepared = io_error("preparing the launcher's socket");
        ours.set_nonblocking(true).map_err(&prepared)?;
        let socket = UnixStream::from_std(ours).map_err(&prepared)?;
        Ok(Launcher { socket, stdout, stderr })
    }

    /// Has the nursery fork. It is started where there is none, or none any more.
    fn ask(&self, descriptors: &[OwnedFd; DESCRIPTORS]) -> io::Result<()> {
        let mut nursery = self.nursery.lock().unwrap_or_else(PoisonError::into_inner);
        if nursery.as_ref().is_some_and(|nursery| nursery.ask(descriptors).is_ok()) {
            return Ok(());
        }
        let started = Nursery::start(self.path())?;
        started.ask(descriptors)?;
        *nursery = Some(started);
        Ok(())
    }

    fn path(&self) -> PathBuf {
        let by_descriptor = |file: &File| PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        // Without /proc there is only the name.
        self.executable
            .as_ref()
            .map(by_descriptor)
            .or_else(|| std::env::current_exe().ok())
            .unwrap_or_else(|| "/proc/self/exe".into())
    }
}

impl Nursery {
    fn start(executable: PathBuf) -> io::Result<Self> {
        let (socket, theirs) = StdUnixStream::pair()?;
        let child = Command::new(executable)
            .arg0(env!("CARGO_PKG_NAME"))
            .arg(crate::launcher::NURSERY)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { socket, _child: child })
    }

    fn ask(&self, descriptors: &[OwnedFd; DESCRIPTORS]) -> io::Result<()> {
        rights::send(&self.socket, &[0], &descriptors.each_ref().map(AsFd::as_fd))?;
        Ok(())
    }
}

fn output_pipe() -> io::Result<(Receiver, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&read, true)?;
    // Fewer turns between writer and reader. A user who has many pipes gets small ones, which will do.
    let _ = rustix::pipe::fcntl_setpipe_size(&read, OUTPUT_PIPE);
    Ok((Receiver::from_owned_fd(read)?, write))
}
