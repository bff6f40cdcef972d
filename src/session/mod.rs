//! Stateful sandboxes: an interpreter that keeps its variables and files from call to call, until it is closed, left
//! alone for too long, or the client goes.
//!
//! [`registry`] knows every session by its name and keeps the limits; each session is an [`actor`] that works through
//! its calls in order. What it drives is an [`interpreter::Kernel`], which an [`interpreter::Interpreter`] starts;
//! [`python`] is the one that runs here, in a sandbox of this machine, and speaks [`protocol`] with the driver inside.
//! Files go through [`crate::workspace`].
//!
//! Invariants: everything that comes out of a sandbox is hostile: bounded, parsed strictly, never a path of the host.
//! This room never knows the MCP protocol, and never which backend it has.

mod actor;
pub mod channel;
mod error;
pub mod interpreter;
mod name;
pub mod protocol;
pub mod python;
mod registry;
mod report;
mod table;

use std::time::Duration;

pub use error::{Ended, SessionError};
pub use name::SessionId;
pub use registry::{SessionStatus, Sessions, Summary};
pub use report::{CellEnd, CellError, CellReport, Form, FormBody, Installed, Shown};

/// How stateful sandboxes are run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSettings {
    /// Sandboxes at the same time.
    pub max_sandboxes: usize,
    /// A sandbox that nobody used for this long is closed.
    pub idle_limit: Duration,
    /// Bytes of one picture in a result; larger ones are made smaller.
    pub max_image_bytes: usize,
    /// Which interpreter they have.
    pub interpreter: InterpreterKind,
}

/// Interpreters that sessions can have. A new one is a file beside [`python`], a line here and one in `commands/serve`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum InterpreterKind {
    /// Python on this machine, in a sandbox of its own
    Python,
}

impl Default for SessionSettings {
    /// 8 sandboxes, half an hour, 256 KiB.
    fn default() -> Self {
        Self {
            max_sandboxes: 8,
            idle_limit: Duration::from_mins(30),
            max_image_bytes: 256 << 10,
            interpreter: InterpreterKind::Python,
        }
    }
}
