//! One run from request to report. Knows scripts, environments and sandboxes; never the MCP protocol, and never
//! which backend it has.

mod capture;
mod check;
mod engine;
pub mod evidence;
mod failure;
mod figures;
pub mod missing;
pub mod output;
mod pool;
mod queue;
pub mod report;
pub mod request;
pub mod run;
mod stateful;
pub mod user_mount;

pub use engine::{Engine, Prepared};
pub use queue::Queue;
pub use report::{Captured, ExecutionError, ExecutionReport, FailureKind};
pub use request::{ExecutionRequest, Progress, ProgressSink};

use crate::sandbox::BoxFuture;
use overview::Overview;
use validation::Validation;

pub mod overview;
pub mod validation;
pub mod warm;

/// What the outer rooms (the server, the command line) ask for. Dropping a future that one of these returned kills
/// what it had started.
pub trait Execute: Send + Sync {
    /// Runs one script to its end.
    fn execute(
        &self,
        request: ExecutionRequest,
        progress: ProgressSink,
    ) -> BoxFuture<'_, Result<ExecutionReport, ExecutionError>>;

    /// Checks a script's metadata and syntax; nothing of it is run.
    fn validate(&self, script: String, dependencies: Vec<String>) -> BoxFuture<'_, Validation>;

    /// What this machine offers and how this server is set up.
    fn overview(&self) -> BoxFuture<'_, Overview>;
}
