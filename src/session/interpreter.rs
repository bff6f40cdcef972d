//! What a session drives: a second kind of interpreter is a new file that implements these two traits.

use std::sync::Arc;

use tokio::time::Instant;

use super::error::SessionError;
use super::report::{CellReport, Installed};
use crate::execution::ProgressSink;
use crate::sandbox::BoxFuture;
use crate::script::Requirement;
use crate::workspace::Workspace;

/// A kind of interpreter.
pub trait Interpreter: Send + Sync {
    /// Its name, as `--interpreter` takes it and as results show it.
    fn name(&self) -> &'static str;

    /// Starts one in a sandbox of its own. Dropping the future ends what it had started.
    fn start(&self, deadline: Instant) -> BoxFuture<'_, Result<Box<dyn Kernel>, SessionError>>;

    /// Ends what it keeps ready; no more is started.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// One interpreter with its state and its files. Dropping it ends it.
///
/// Its methods are called one at a time, and each future is awaited to its end, unless the whole kernel is dropped.
pub trait Kernel: Send {
    /// Runs one cell, and tells lines of its output while it runs. When `stop` is due, the cell is interrupted; what it
    /// then does with its state is told by the report.
    fn run<'a>(
        &'a mut self,
        code: &'a str,
        stop: Stop<'a>,
        progress: ProgressSink,
    ) -> BoxFuture<'a, Result<CellReport, SessionError>>;

    /// Installs packages, beside those that were installed before. When `stop` is due before they are there, nothing is
    /// changed.
    fn install<'a>(
        &'a mut self,
        packages: Vec<Requirement>,
        stop: Stop<'a>,
        progress: ProgressSink,
    ) -> BoxFuture<'a, Result<Installed, SessionError>>;

    /// Its files.
    fn workspace(&self) -> Arc<dyn Workspace>;

    /// What it uses now; `None` where that cannot be told.
    fn usage(&mut self) -> BoxFuture<'_, Option<KernelUsage>>;

    /// The full version of the language, such as `3.13.0`.
    fn version(&self) -> String;

    /// Ends it. Every process is gone when this returns.
    fn close(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// What an interpreter uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelUsage {
    /// Bytes of memory of all its processes; what several share counts once.
    pub memory: u64,
    /// Their number.
    pub processes: u64,
}

/// When a cell has to stop.
pub struct Stop<'a> {
    /// The latest time.
    pub deadline: Instant,
    /// Completes when nobody waits for the result any more.
    pub abandoned: BoxFuture<'a, ()>,
}

impl Stop<'_> {
    /// Waits until the cell has to stop; true where its time was up.
    pub async fn due(&mut self) -> bool {
        tokio::select! {
            () = tokio::time::sleep_until(self.deadline) => true,
            () = &mut self.abandoned => false,
        }
    }
}
