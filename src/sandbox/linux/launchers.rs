//! Launcher processes: this program, executed again, waiting for a plan on its socket. One is kept ready, so that a call
//! does not wait for that; it knows nothing of the run that it will serve.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::pipe::PipeFlags;
use tokio::net::UnixStream;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};

use crate::sandbox::StartError;

/// Time that the answer has to get out before the next launcher is started.
const AFTER_A_RUN: Duration = Duration::from_millis(2);

/// A launcher that waits for its plan.
pub struct Launcher {
    /// Carries the plan in and messages out.
    pub socket: UnixStream,
    /// What the program will print to standard output.
    pub stdout: Receiver,
    /// What the program will print to standard error.
    pub stderr: Receiver,
    /// The process.
    pub child: Child,
}

/// Where launchers come from. Cheap to clone.
#[derive(Clone)]
pub struct Launchers(Arc<Inner>);

struct Inner {
    /// This program, held open since the start: an upgrade of the file on disk does not matter.
    executable: Option<File>,
    spare: Mutex<Option<Launcher>>,
}

fn io_error(context: &'static str) -> impl Fn(io::Error) -> StartError {
    move |source| StartError::Io { context, source }
}

impl Launchers {
    /// Opens the running program's own file. Starts nothing.
    pub fn open() -> Self {
        Self(Arc::new(Inner { executable: File::open("/proc/self/exe").ok(), spare: Mutex::default() }))
    }

    /// The one that is ready, or a new one.
    pub fn take(&self) -> Result<Launcher, StartError> {
        let spare = self.spare().take();
        match spare.and_then(Launcher::if_alive) {
            Some(spare) => Ok(spare),
            None => self.start(),
        }
    }

    /// A run is over: gets another one ready, a moment later.
    pub fn get_ready(&self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let launchers = self.clone();
        runtime.spawn(async move {
            tokio::time::sleep(AFTER_A_RUN).await;
            if launchers.spare().is_none() {
                // Where it cannot be started now, the next run says why.
                let started = launchers.start().ok();
                *launchers.spare() = started;
            }
        });
    }

    fn spare(&self) -> std::sync::MutexGuard<'_, Option<Launcher>> {
        self.0.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self) -> Result<Launcher, StartError> {
        let (ours, theirs) = StdUnixStream::pair().map_err(io_error("making a socket pair"))?;
        let (stdout, stdout_end) = output_pipe().map_err(io_error("making a pipe"))?;
        let (stderr, stderr_end) = output_pipe().map_err(io_error("making a pipe"))?;
        let child = Command::new(self.path())
            .arg0(env!("CARGO_PKG_NAME"))
            .arg(crate::launcher::ENTRY)
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::from(stdout_end))
            .stderr(Stdio::from(stderr_end))
            .spawn()
            .map_err(io_error("starting the launcher"))?;
        let prepared = io_error("preparing the launcher's socket");
        ours.set_nonblocking(true).map_err(&prepared)?;
        let socket = UnixStream::from_std(ours).map_err(&prepared)?;
        Ok(Launcher { socket, stdout, stderr, child })
    }

    fn path(&self) -> PathBuf {
        let by_descriptor = |file: &File| PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        // Without /proc there is only the name.
        self.0
            .executable
            .as_ref()
            .map(by_descriptor)
            .or_else(|| std::env::current_exe().ok())
            .unwrap_or_else(|| "/proc/self/exe".into())
    }
}

impl Launcher {
    fn if_alive(mut self) -> Option<Self> {
        matches!(self.child.try_wait(), Ok(None)).then_some(self)
    }
}

fn output_pipe() -> io::Result<(Receiver, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&read, true)?;
    Ok((Receiver::from_owned_fd(read)?, write))
}
