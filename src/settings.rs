//! Validated values of flags and environment variables. Pure: it reads nothing itself.

use std::path::PathBuf;
use std::time::Duration;

use crate::audit::AuditSettings;
use crate::environment::{PythonVersion, SourceBuilds};
use crate::execution::user_mount::UserMount;
use crate::sandbox::{Backend, Tier, select::Choice, spec::Limits, spec::Network};
use crate::session::SessionSettings;

/// Tools that belong together and can be left out together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ToolFamily {
    /// Single runs of scripts, and checks
    Execute,
    /// Stateful sandboxes and their files
    Sandbox,
}

/// How this process was asked to behave. No value in here contradicts another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The Python that was asked for; `None` is the default one, or the newest where that cannot be had.
    pub python: Option<PythonVersion>,
    /// The backend.
    pub backend: Backend,
    /// Who chose it. A default goes on to containers where it cannot be used.
    pub backend_choice: Choice,
    /// The lowest tier that is accepted at start.
    pub require: Option<Tier>,
    /// The image of the Docker backend, where the user names one.
    pub docker_image: Option<String>,
    /// Folder of the user's own system-call policy; `None` is the embedded one.
    pub seccomp_policy: Option<PathBuf>,
    /// Reach of the network for scripts.
    pub network: Network,
    /// Who chose it. A default gives way where this machine cannot have it.
    pub network_choice: Choice,
    /// Limits of one run.
    pub limits: Limits,
    /// Seconds for a call that names no timeout; at most `max_timeout`.
    pub default_timeout: u64,
    /// Seconds at most for one call.
    pub max_timeout: u64,
    /// Bytes kept of each stream; at least 1,024.
    pub max_output_bytes: usize,
    /// Runs at the same time.
    pub max_concurrent: usize,
    /// Sandboxes that wait for a script, at most; 0 keeps none waiting.
    pub pool_size: usize,
    /// The same where sandboxes are containers.
    pub pool_size_of_containers: usize,
    /// Modules that waiting sandboxes have imported already, where a script's packages hold them.
    pub preload: Vec<String>,
    /// Whether packages are fetched in advance.
    pub warm_cache: bool,
    /// uv as the user named it: a path, or a name to look for on PATH. `None` looks everywhere.
    pub uv: Option<PathBuf>,
    /// Names of environment variables that are handed to scripts.
    pub pass_env: Vec<String>,
    /// Folder of cached packages and environments; `None` is the user's data folder.
    pub data_dir: Option<PathBuf>,
    /// Bytes that packages and environments may take together.
    pub cache_size: u64,
    /// After this time an environment's requirements are resolved again.
    pub resolve_ttl: Duration,
    /// Whether packages without a wheel are built from source.
    pub source_builds: SourceBuilds,
    /// Whether an index without TLS that stands in the environment or in uv's configuration is used.
    pub allow_http_index: bool,
    /// Folders of the user's that every sandbox shows.
    pub mounts: Vec<UserMount>,
    /// The audit log, where there is to be one.
    pub audit: Option<AuditSettings>,
    /// Which tools clients see.
    pub tools: Vec<ToolFamily>,
    /// How stateful sandboxes are run.
    pub sessions: SessionSettings,
}
