//! The launch plan: what the launcher does, in full, as ordered data.
//!
//! Pure. It is what `run --explain` prints, what snapshots compare and what crosses the socket to the launcher,
//! so nothing is decided after it. Lowering (specification to plan) lives in `lower`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::sandbox::spec::Access;

mod access;
mod groundwork;
mod limits;
mod policy;

pub use access::{DeputyPlan, FileRules, LandlockPlan, PortRule, Scopes, SignalGuard};
pub use groundwork::Groundwork;
pub use limits::{
    Group, GroupCounter, GroupPlan, GroupSetting, MissingSetting, ProcessLimit, ResourceLimits, WatchPlan,
};
pub use policy::{CustomPolicy, PolicyTier, SeccompPlan, SocketPolicy};

/// Everything the launcher does before it executes the program, in the order of the fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchPlan {
    /// Namespaces and the root; `None` where user namespaces are refused or no isolation is asked for.
    pub isolation: Option<Isolation>,
    /// Unused user that the launcher becomes before anything else; only without isolation, where the server is root.
    pub drop_to: Option<u32>,
    /// Who ends every process of the run.
    pub supervision: Supervision,
    /// Folders that are removed when the run has ended; only without a root of its own.
    pub remove_after: Vec<PathBuf>,
    /// Control groups for the whole run; `None` where none can be had.
    pub groups: Option<GroupPlan>,
    /// What the supervisor watches instead.
    pub watch: Option<WatchPlan>,
    /// Kernel limits of each process.
    pub limits: ResourceLimits,
    /// Access rights by path; `None` only without isolation.
    pub landlock: Option<LandlockPlan>,
    /// System-call policy; `None` only without isolation.
    pub seccomp: Option<SeccompPlan>,
    /// What the monitor does for the run; only without namespaces.
    pub deputy: Option<DeputyPlan>,
    /// What runs when every layer stands.
    pub program: Program,
    /// Length in bytes of each file content that follows the plan on the socket, in the order of
    /// [`RootStep::Content`].
    pub contents: Vec<u64>,
}

/// Namespaces and the root file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Isolation {
    /// How the run gets a user of its own.
    pub identity: Identity,
    /// Whether the network namespace is private (with loopback up) or the host's.
    pub private_network: bool,
    /// Where the server connects out of a private network: how many of the host's name servers appear inside.
    pub name_servers: Option<u8>,
    /// Host name inside.
    pub host_name: String,
    /// Size of the file system that holds everything writable, in bytes.
    pub scratch_bytes: u64,
    /// Files and folders it may hold.
    pub scratch_inodes: u64,
    /// How the root is put together.
    pub root: Vec<RootStep>,
}

/// How the run gets a user of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Identity {
    /// A user namespace that owns all other namespaces and maps the caller's own user.
    OwnUser,
    /// Started by root: mounts are made as root, then the run becomes this unused user and enters a user namespace
    /// that owns nothing.
    Unused(u32),
    /// Started by root where user namespaces are refused: as [`Identity::Unused`], without the user namespace.
    UnusedUnmapped(u32),
    /// Started by root of a container's own user namespace, where no other user can be had: as [`Identity::OwnUser`].
    ContainerRoot,
}

impl Identity {
    /// Whether the run's user namespace owns its other namespaces, so that mounts are made in it.
    pub fn owns_namespaces(self) -> bool {
        matches!(self, Self::OwnUser | Self::ContainerRoot)
    }

    /// User and group id that files of the run belong to, as the launcher sees them while it mounts.
    pub fn owner_while_mounting(self) -> u32 {
        match self {
            Self::OwnUser | Self::ContainerRoot => crate::sandbox::spec::USER_ID,
            Self::Unused(id) | Self::UnusedUnmapped(id) => id,
        }
    }

    /// User and group id that the script sees as its own.
    pub fn inside(self) -> u32 {
        match self {
            Self::OwnUser | Self::ContainerRoot | Self::Unused(_) => crate::sandbox::spec::USER_ID,
            Self::UnusedUnmapped(id) => id,
        }
    }
}

/// One step of putting the root together. Targets are absolute paths inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "step")]
pub enum RootStep {
    /// A folder of the read-only root.
    Directory {
        /// Where.
        target: PathBuf,
    },
    /// A writable folder that belongs to the run.
    Scratch {
        /// Where.
        target: PathBuf,
        /// Permission bits.
        mode: u32,
    },
    /// A host folder or file.
    Bind {
        /// Host path without symbolic links.
        source: PathBuf,
        /// Where.
        target: PathBuf,
        /// Read-only or not.
        access: Access,
        /// Whether it is a folder.
        directory: bool,
    },
    /// A device node of the host.
    Device {
        /// Its name below `/dev`.
        name: String,
    },
    /// A symbolic link.
    Symlink {
        /// Where.
        target: PathBuf,
        /// What it points to.
        to: PathBuf,
    },
    /// A small read-only file with this text.
    Text {
        /// Where.
        target: PathBuf,
        /// Its content.
        text: String,
    },
    /// A file of the run whose content follows the plan.
    Content {
        /// Where.
        target: PathBuf,
    },
    /// A named pipe of the run, from which the program will read its script.
    Fifo {
        /// Where.
        target: PathBuf,
    },
    /// A process file system of the run's own process namespace.
    Proc {
        /// Entries that are hidden: kernel-wide ones.
        masked: Vec<MaskedEntry>,
    },
    /// In place of a process file system: the main program's own folder of the caller's, as `/proc/self`. For where an
    /// outer container has covered parts of its own, so that the kernel makes no fresh one.
    OwnProc,
    /// Pseudo-terminals of its own.
    Devpts,
}

/// Where the run's process file system comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcSource {
    /// The kernel makes a new one.
    Fresh,
    /// It is put together of parts of the caller's.
    Assembled,
}

/// A kernel-wide entry of the process file system that is covered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaskedEntry {
    /// Its name below `/proc`.
    pub name: String,
    /// What lies over it.
    pub cover: Cover,
}

/// What lies over a kernel-wide entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cover {
    /// An empty file that nobody may read.
    File,
    /// An empty folder that nobody may read.
    Directory,
    /// A folder of the root with harmless entries of the same names.
    Folder(PathBuf),
}

/// Who ends every process of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Supervision {
    /// Process 1 of its own process namespace: its end is the end of all.
    ProcessNamespace,
    /// A monitor in a Landlock domain of its own, whose signals reach nothing but the run (needs ABI 6). Never as root.
    ScopeMonitor,
    /// A monitor that collects orphans and kills what descends from it.
    Subreaper,
}

/// What runs when every layer stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// A program.
    Execute(Exec),
    /// Connections that the server has to make, and to refuse.
    ConnectTest {
        /// Port on the host's loopback that the server is to connect to.
        allowed: u16,
        /// Port on the host's loopback that cannot be reached.
        refused: u16,
    },
    /// Acts that every layer has to refuse.
    SelfTest {
        /// Folders of the host that must not be there.
        hidden: Vec<PathBuf>,
        /// What has to be out of reach where no namespace hides it.
        outside: Option<Outside>,
    },
}

/// Something of the host that a confined self-test tries to reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outside {
    /// A folder of the run's own user that no rule names.
    pub folder: PathBuf,
    /// A process of the server.
    pub process: i32,
}

/// A program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exec {
    /// Absolute path inside.
    pub program: PathBuf,
    /// Arguments after the name.
    pub args: Vec<String>,
    /// The whole environment.
    pub env: BTreeMap<String, String>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Whether the program keeps a private channel as descriptor 3.
    pub channel: bool,
}
