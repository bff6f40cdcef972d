//! Sandboxes: what is allowed (`spec`), and the trait behind which every backend carries it out.
//!
//! Invariant: nothing outside this room names Linux namespaces or a container engine, and nothing in here knows
//! scripts, packages or the MCP protocol.

pub mod docker;
pub mod facts;
pub mod limit;
#[cfg(native)]
pub mod linux;
pub mod machine;
#[cfg(native)]
pub mod none;
pub mod reserved;
pub mod select;
pub mod spec;
pub mod volumes;

use std::fmt;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::io::AsyncRead;

pub use facts::{Backend, Facts, LayerState, LayerStatus, Tier};
pub use limit::LimitHit;
pub use spec::SandboxSpec;

/// A future that can cross threads, for object-safe traits.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A stream of what a sandboxed program prints.
pub type OutputStream = Box<dyn AsyncRead + Send + Unpin>;

/// One way of building sandboxes.
pub trait Sandbox: Send + Sync {
    /// What this backend can do here, and why not. Found out once, at start.
    fn facts(&self) -> &Facts;

    /// Whether this backend can keep [`spec::Network::Outbound`] here, or why not. Found out once, at start.
    fn outbound(&self) -> Result<(), String> {
        Err(format!("the {} backend does not connect for scripts", self.facts().backend))
    }

    /// Why the next better tier cannot be had here, and how to get it; `None` where there is none.
    fn shortfall(&self) -> Option<&facts::Refusal> {
        None
    }

    /// What of this machine this backend makes sandboxes of, part by part, also where it cannot be used.
    fn parts(&self) -> Vec<facts::Part> {
        Vec::new()
    }

    /// Whether runs can be kept within these limits; tells what is missing where they cannot.
    fn carries(&self, _limits: &spec::Limits) -> Result<(), facts::Refusal> {
        Ok(())
    }

    /// Whether what runs in a sandbox could read this host path if it were shown to it. A backend whose sandbox user is
    /// not the caller, and which cannot mount, cannot show what lies in a closed folder.
    fn reaches(&self, _path: &std::path::Path) -> bool {
        true
    }

    /// The whole plan for a specification, in words, without carrying anything out.
    fn explain(&self, spec: &SandboxSpec) -> Result<String, StartError>;

    /// Builds the sandbox and starts the program in it. Every layer of the tier stands when this returns.
    fn start<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<Running, StartError>>;

    /// Makes what the next sandbox like this one needs and what does not depend on its program, mounts and files, so that
    /// its start takes less time. A backend that has nothing of the kind does nothing.
    fn get_ahead<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, ()> {
        let _ = spec;
        Box::pin(std::future::ready(()))
    }

    /// Gives that up again.
    fn fall_back(&self) {}

    /// Ends every sandbox that still lives and waits until nothing of any is left. Nothing is started afterwards.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Programs and folders of its own, where its sandboxes see nothing of the host's file system.
    fn volumes(&self) -> Option<&dyn volumes::Volumes> {
        None
    }

    /// Builds the sandbox and starts the program before its script is known. Returns when the program waits for the
    /// file `script`, a path below the work directory. A backend that cannot do this says so.
    fn start_waiting<'a>(
        &'a self,
        spec: &'a SandboxSpec,
        script: &'a Path,
    ) -> BoxFuture<'a, Result<Box<dyn Waiting>, StartError>> {
        let _ = (spec, script);
        let refused = StartError::Unsupported("this backend keeps no program waiting".to_owned());
        Box::pin(std::future::ready(Err(refused)))
    }
}

/// A program in a finished sandbox, which waits for its script. Dropping it kills everything inside.
pub trait Waiting: Send {
    /// Whether it still waits, and its sandbox is what a new one would be.
    fn is_fit(&self) -> bool;

    /// Hands the script over and lets the program go on. After an error nothing of the script has been run.
    fn deliver(self: Box<Self>, script: &Arc<[u8]>) -> Result<Running, StartError>;
}

/// A program that runs in a sandbox. Dropping it kills everything inside.
pub struct Running {
    /// What the program prints to standard output.
    pub stdout: OutputStream,
    /// What the program prints to standard error.
    pub stderr: OutputStream,
    /// The private channel, where the specification asked for one.
    #[cfg(unix)]
    pub channel: Option<tokio::net::UnixStream>,
    /// The sandbox's work directory, where the backend can hand it over; valid after the end of the program too.
    #[cfg(unix)]
    pub work_dir: Option<std::os::fd::OwnedFd>,
    /// Layers that were really enforced.
    pub layers: Vec<LayerStatus>,
    /// Waits and kills.
    pub control: Box<dyn Control>,
}

impl Running {
    /// Standard output and standard error, to be read beside the rest.
    pub fn take_streams(&mut self) -> (OutputStream, OutputStream) {
        let nothing = || -> OutputStream { Box::new(tokio::io::empty()) };
        (std::mem::replace(&mut self.stdout, nothing()), std::mem::replace(&mut self.stderr, nothing()))
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("layers", &self.layers).finish_non_exhaustive()
    }
}

/// The handle by which a backend waits for, and kills, one sandbox. Dropping it kills.
pub trait Control: Send {
    /// Waits for the main program's end. Every process that it has left is gone when this returns.
    fn wait(&mut self) -> BoxFuture<'_, Result<Outcome, WaitError>>;

    /// Says that a program which waited for its script has it now: from here on its limits are watched.
    fn begins(&mut self) {}

    /// After the program's end: the files that it left below [`spec::OUTPUT_DIR`], where the backend hands over no
    /// descriptor of the work directory.
    fn left_files(&self) -> Vec<LeftFile> {
        Vec::new()
    }

    /// Kills every process of the sandbox; [`Control::wait`] then returns soon. Harmless when it has ended.
    fn kill(&mut self);
}

/// A file that a program left to be shown with its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftFile {
    /// Absolute path inside; named by the sandbox, so it may be anything.
    pub path: std::path::PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// Its content; `None` where it was too large.
    pub content: Option<Arc<[u8]>>,
}

/// How a program in a sandbox ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Exit code or signal of the main program.
    pub status: ExitStatus,
    /// The limit that ended it, where one did.
    pub limit: Option<LimitHit>,
    /// What it used.
    pub usage: Usage,
}

/// Exit code or signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ExitStatus {
    /// Ended by itself with this code.
    Exited(i32),
    /// Ended by this signal.
    Signaled(i32),
}

impl ExitStatus {
    /// One number, as a shell shows it: the exit code, or 128 and the signal.
    pub fn code(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::Signaled(signal) => 128 + signal,
        }
    }

    /// The signal, where one ended the program.
    pub fn signal(self) -> Option<i32> {
        match self {
            Self::Exited(_) => None,
            Self::Signaled(signal) => Some(signal),
        }
    }
}

/// What a program used, as far as the backend can tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Processor time of the main program and the children that it waited for.
    pub cpu: Duration,
    /// Largest resident size of one process, in bytes.
    pub peak_memory: u64,
}

/// Why a sandbox was not started. Nothing of it is left behind.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// This backend cannot be used on this machine.
    #[error("{reason}. {remedy}")]
    Unavailable {
        /// What is missing.
        reason: String,
        /// What to do.
        remedy: String,
    },
    /// A stage of building the sandbox failed.
    #[error("the sandbox could not be built: {stage}: {detail}")]
    Stage {
        /// The stage: namespaces, mounts, limits ...
        stage: String,
        /// What failed in it.
        detail: String,
        /// The kernel's error number, where there is one.
        errno: Option<i32>,
    },
    /// The program to start is not in the sandbox, although the sandbox stands.
    #[error("{} is not there", .0.display())]
    ProgramMissing(std::path::PathBuf),
    /// The specification cannot be carried out by this backend.
    #[error("this backend cannot carry out the specification: {0}")]
    Unsupported(String),
    /// The operating system refused something outside the sandbox.
    #[error("{context}: {source}")]
    Io {
        /// What was being done.
        context: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
}

/// Why the end of a program cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    /// The sandbox was killed on request before the program ended.
    #[error("the sandbox was killed")]
    Killed,
    /// The sandbox went away before its program got the script that it waited for: nothing of it was run.
    #[error("the sandbox ended before it got its script: {0}")]
    NotBegun(String),
    /// The sandbox's supervisor went away without a word.
    #[error("the sandbox ended without telling how: {0}")]
    Lost(String),
}
