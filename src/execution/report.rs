//! What came of one run. Pure data: words are made of it in `server/reply.rs` and `commands/`.

use std::sync::Arc;
use std::time::Duration;

use super::output::OutputFile;
use crate::sandbox::{Backend, ExitStatus, LayerStatus, LimitHit, Tier, Usage};

/// A run that was started, however it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionReport {
    /// Standard output, as far as it was kept.
    pub stdout: Captured,
    /// Standard error, as far as it was kept.
    pub stderr: Captured,
    /// Exit code or signal; `Signaled(9)` after a timeout.
    pub status: ExitStatus,
    /// Whether the deadline ended it.
    pub timed_out: bool,
    /// From request to end, preparing included.
    pub duration: Duration,
    /// Full version of the interpreter, such as `3.13.0`.
    pub python: String,
    /// Key of the environment in the store.
    pub environment: Arc<str>,
    /// Which backend built the sandbox.
    pub backend: Backend,
    /// What the sandbox promised.
    pub tier: Tier,
    /// Layers that were really enforced.
    pub layers: Vec<LayerStatus>,
    /// The limit that ended it, where one did.
    pub limit: Option<LimitHit>,
    /// What it used.
    pub usage: Usage,
    /// Files that it left in `output/`.
    pub output: Vec<OutputFile>,
    /// Things the caller should know: another interpreter than asked for, overridden requirements ...
    pub notes: Vec<String>,
}

/// One captured stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// The text; bytes that are not UTF-8 are U+FFFD. At most the limit, cut on a character boundary.
    pub text: String,
    /// Bytes that the program wrote.
    pub total_bytes: u64,
    /// Whether something was cut.
    pub truncated: bool,
}

/// A run that could not be started or whose end cannot be told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExecutionError {
    /// What kind of failure it is.
    pub kind: FailureKind,
    /// What failed, where, and what to do: for the agent, at most a few sentences.
    pub message: String,
    /// The underlying tool's own words, trimmed; empty where there are none.
    pub detail: String,
    /// Things the caller should know.
    pub notes: Vec<String>,
}

/// Kinds of failure, as they stand in structured results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The script text or its metadata is not valid.
    InvalidScript,
    /// A requirement is refused by policy.
    RefusedRequirement,
    /// No index knows a package of this name.
    NoSuchPackage,
    /// There is no such version.
    NoSuchVersion,
    /// There is a version, for another Python.
    WrongPython,
    /// Only wheels for others, or only source code that may not be built.
    NoWheel,
    /// Withdrawn by its authors.
    Yanked,
    /// Two requirements exclude each other.
    Conflict,
    /// The requirements have no solution for another reason.
    Resolution,
    /// A download is not what the index promised.
    HashMismatch,
    /// The package index cannot be reached.
    Network,
    /// A package could not be built or unpacked.
    Installation,
    /// No interpreter that would do.
    Interpreter,
    /// uv is missing.
    Uv,
    /// The deadline passed while preparing.
    Timeout,
    /// The sandbox could not be built, or no backend can be used.
    Sandbox,
    /// Too many calls at once.
    Busy,
    /// A disk is full or a folder cannot be written.
    Storage,
}
