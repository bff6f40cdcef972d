//! Why a call into a session could not be carried out.

use std::time::Duration;

use crate::execution::ExecutionError;
use crate::workspace::FileError;

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By `close_sandbox`.
    Closed,
    /// Nobody used it for the time that the server allows.
    Idle(Duration),
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("was closed"),
            Self::Idle(limit) => write!(f, "was closed after {} seconds without use", limit.as_secs()),
        }
    }
}

/// Why a call into a session could not be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The name cannot be used.
    #[error(
        "{0:?} cannot name a sandbox: use up to 64 letters, digits, `-`, `_` and `.`, the first a letter or digit"
    )]
    Name(String),
    /// There is no such session.
    #[error("no sandbox is named {0}; make one with create_sandbox")]
    Unknown(String),
    /// There was one.
    #[error("the sandbox {id} {how}; make a new one with create_sandbox")]
    Ended {
        /// Its name.
        id: String,
        /// How it ended.
        how: Ended,
    },
    /// There is one already.
    #[error("a sandbox named {0} is there already; use it, close it, or take another name")]
    Exists(String),
    /// There are as many as the server allows.
    #[error(
        "{limit} sandboxes are open, which is the limit (--max-sandboxes); close one with close_sandbox first"
    )]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// The environment or the sandbox could not be made.
    #[error("{}", .0.message)]
    Execution(ExecutionError),
    /// A package argument that is not one.
    #[error("{0}")]
    Package(String),
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The driver inside did not do what it should, and the sandbox was ended.
    #[error(
        "the sandbox was ended: {0}. The next execute_code starts a new interpreter and says what was kept"
    )]
    Broken(String),
    /// Too many calls wait for this session.
    #[error("{waiting} calls wait for this sandbox already; wait for an answer first")]
    Busy {
        /// How many.
        waiting: usize,
    },
    /// Nobody waited for the result any more.
    #[error("the call was cancelled")]
    Cancelled,
    /// The session was closed while the call waited.
    #[error("the sandbox was closed before this call was finished")]
    Closing,
}

impl SessionError {
    /// The kind of failure in one word, for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Name(_) => "invalid_session_id",
            Self::Unknown(_) | Self::Ended { .. } => "unknown_sandbox",
            Self::Exists(_) => "sandbox_exists",
            Self::TooMany { .. } => "too_many_sandboxes",
            Self::Execution(_) => "sandbox",
            Self::Package(_) => "refused_requirement",
            Self::File(_) => "file",
            Self::Broken(_) => "sandbox_ended",
            Self::Busy { .. } => "busy",
            Self::Closing | Self::Cancelled => "cancelled",
        }
    }
}

impl From<ExecutionError> for SessionError {
    fn from(error: ExecutionError) -> Self {
        Self::Execution(error)
    }
}
