//! What is allowed inside one sandbox, in terms that every backend understands.
//!
//! Pure data: it can be printed, compared and tested without a kernel. It must never know how a backend
//! carries it out: no namespace, no container, no descriptor.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Everything that one sandbox may see and use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SandboxSpec {
    /// What the sandbox is for; selects the system-call policy.
    pub role: Role,
    /// The program that is started inside.
    pub command: Command,
    /// Host folders and volumes that are visible inside, beside the backend's own system folders.
    pub mounts: Vec<Mount>,
    /// Files that are written into the sandbox before the program starts.
    pub files: Vec<InlineFile>,
    /// Reach of the network.
    pub network: Network,
    /// Servers that are in reach though the network is [`Network::Outbound`], wherever they are, since the user's settings
    /// name them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub named_servers: Vec<SocketAddr>,
    /// Limits for the whole sandbox.
    pub limits: Limits,
    /// Whether the program gets a private two-way channel on descriptor 3.
    pub channel: bool,
}

/// What a sandbox is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The resolver: network, writable package cache, no code of a package.
    Prepare,
    /// Build code of a package without a wheel.
    Build,
    /// The script.
    Run,
}

/// A program with its arguments, environment and working directory, as seen from inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Command {
    /// Absolute path inside the sandbox.
    pub program: PathBuf,
    /// Arguments after the program's name.
    pub args: Vec<String>,
    /// The whole environment: nothing else is inherited.
    pub env: BTreeMap<String, String>,
    /// Working directory; below [`WORK_DIR`] or one of the mounts.
    pub cwd: PathBuf,
}

/// The writable folder in which a script lies and runs.
pub const WORK_DIR: &str = "/work";
/// The folder whose files are shown with a run's result.
pub const OUTPUT_DIR: &str = "/work/output";
/// The home directory of the sandbox user.
pub const HOME_DIR: &str = "/home/sandbox";
/// Name of the sandbox user and group.
pub const USER_NAME: &str = "sandbox";
/// User and group id of the sandbox user inside.
pub const USER_ID: u32 = 1000;

/// One folder or file that is visible inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// Where it comes from.
    pub source: MountSource,
    /// Absolute path inside.
    pub target: PathBuf,
    /// Whether the sandbox may change it.
    pub access: Access,
}

impl Mount {
    /// A host path that is visible read-only under its own name.
    pub fn read_only(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { source: MountSource::Host(path.clone()), target: path, access: Access::ReadOnly }
    }

    /// A host path that is visible and writable under its own name.
    pub fn read_write(path: impl Into<PathBuf>) -> Self {
        Self { access: Access::ReadWrite, ..Self::read_only(path) }
    }
}

/// Origin of a mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MountSource {
    /// An absolute host path without symbolic links in it.
    Host(PathBuf),
    /// A named volume of the backend's engine.
    Volume(String),
}

/// What the sandbox may do with a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Read and execute.
    ReadOnly,
    /// Read, write and execute.
    ReadWrite,
}

/// A file that is put into the sandbox before the program starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InlineFile {
    /// Path below [`WORK_DIR`], without `..`.
    pub path: PathBuf,
    /// The content, byte for byte.
    #[serde(serialize_with = "length_only")]
    pub content: std::sync::Arc<[u8]>,
}

fn length_only<S: serde::Serializer>(content: &std::sync::Arc<[u8]>, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&format!("{} bytes", content.len()))
}

/// Reach of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// A network of its own with nothing but loopback, out of which the server connects: to the internet and to private
    /// networks, not to this machine, its link or a cloud's metadata.
    Outbound,
    /// The host's network, as the host sees it.
    Host,
    /// A network of its own with nothing but loopback; without namespaces no internet sockets at all.
    None,
}

/// Limits for one sandbox. Sizes are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Memory of all processes together.
    pub memory: u64,
    /// Processes and threads at the same time.
    pub processes: u64,
    /// Open descriptors of one process.
    pub open_files: u64,
    /// All writable folders together, each of them at most this.
    pub disk: u64,
    /// Processors' worth of time, in hundredths (150 is one and a half processors); `None` is all of them.
    pub cpu_percent: Option<u32>,
    /// How far everything else goes first: 0 for an ordinary run, up to 19 (`nice(2)`) for work in the background.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub niceness: u8,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for this signature")]
fn is_zero(niceness: &u8) -> bool {
    *niceness == 0
}

impl Default for Limits {
    /// 2 GiB of memory (below that, heavy data-frame packages fail to start), 512 processes, 1,024 descriptors
    /// (the usual soft limit), 1 GiB of disk.
    fn default() -> Self {
        Self {
            memory: 2 << 30,
            processes: 512,
            open_files: 1024,
            disk: 1 << 30,
            cpu_percent: None,
            niceness: 0,
        }
    }
}
