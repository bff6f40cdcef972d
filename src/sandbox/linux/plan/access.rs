//! What a run may reach: rules of Landlock, and what the monitor does for it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What Landlock restricts, beside and independent of the mounts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandlockPlan {
    /// Access by path; `None` leaves files alone.
    pub files: Option<FileRules>,
    /// TCP ports (from ABI 4 on) and UDP ports (from ABI 10 on).
    pub ports: PortRule,
    /// What stops at the sandbox's border (ABI 6 knows it).
    pub scopes: Scopes,
    /// Lowest ABI with which the sandbox is still what it promises; 0 goes without Landlock where the kernel has none.
    pub minimum_abi: u8,
}

/// Access by path: what is not below one of these cannot be opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRules {
    /// Folders whose entries may be listed, and nothing else.
    pub list: Vec<PathBuf>,
    /// Read only, neither write nor execute.
    pub read: Vec<PathBuf>,
    /// Read and execute below these.
    pub read_execute: Vec<PathBuf>,
    /// Read, write, create and execute below these.
    pub read_write: Vec<PathBuf>,
}

/// What the monitor does for a run without namespaces, whose filter asks it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeputyPlan {
    /// The folder with the run's own files: their permissions and times are changed.
    pub own: PathBuf,
    /// The folder in which the run's named semaphores and shared memory are kept. It is removed with the run.
    pub shared_memory: PathBuf,
    /// Who keeps the run's signals inside it.
    pub signals: SignalGuard,
}

/// Who keeps signals inside a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SignalGuard {
    /// Landlock, by its scope.
    Scope,
    /// The deputy, by looking from whom the target descends.
    Deputy,
}

/// What Landlock says of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortRule {
    /// Nothing: the network is on, or a namespace of its own.
    Untouched,
    /// No port is connected to: the server does that for the run.
    ConnectRefused,
    /// No port is bound or connected to.
    Refused,
}

/// What stops at the sandbox's border.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scopes {
    /// Signals.
    Signals,
    /// Signals and abstract sockets.
    All,
}
