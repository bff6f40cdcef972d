//! What a run may reach: rules of Landlock and the system-call policy.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::sandbox::spec::Role;

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
    /// Folders for shared memory: files are made, read, written and removed by name; nothing is listed or executed.
    pub shared_memory: Vec<PathBuf>,
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

/// Which system-call policy applies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeccompPlan {
    /// The policy built into this program for a role.
    Embedded(Role, PolicyTier),
    /// A reviewed replacement, compiled by the server: one `u64` for each instruction.
    Custom(Vec<u64>),
}

/// Which variant of a policy applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyTier {
    /// Beside namespaces.
    Full,
    /// Beside namespaces, a private network among them, out of which the server connects.
    Brokered,
    /// Without namespaces, where system calls reach further.
    Confined(SocketPolicy),
}

/// Which sockets the confined tier has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SocketPolicy {
    /// Internet and local ones.
    All,
    /// Local ones: the network is off.
    Local,
    /// Internet ones: Landlock is too old to guard the host's path sockets.
    Internet,
    /// Pairs only: the network is off, and Landlock is too old.
    PairsOnly,
}
