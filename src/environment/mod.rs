//! Interpreters and dependencies: the only room that knows uv.
//!
//! A request goes through `service`: `selection` finds an interpreter (`interpreters`), `build` resolves and
//! installs with uv in a sandbox (`job`, `uv`, `index`, `connection`), `source` builds what has no wheel in a sandbox
//! of its own, `store` keeps the result, `bytecode` compiles it afterwards.
//!
//! Invariant: it starts nothing outside a sandbox but uv's own version check, the search for interpreters, the user's
//! own keyring, and the machine's own pip where there is no uv. Code of a package runs in the build role alone, which sees
//! neither the package cache nor credentials.

mod build;
mod bytecode;
mod conclusion;
pub mod connection;
pub mod credentials;
pub mod data_dir;
mod dates;
pub mod failure;
mod figures;
mod files;
mod flight;
pub mod host;
pub mod index;
mod inside;
pub mod interpreters;
mod job;
mod lock;
pub mod packages;
pub mod progress;
mod prune;
pub mod python;
mod reach;
pub mod redact;
mod request;
mod selection;
mod service;
mod source;
mod startup;
pub mod stock;
mod store;
mod suggest;
#[cfg(all(test, unix))]
mod testing;
#[cfg(all(test, unix))]
mod tests;
mod tool;
mod upkeep;
mod uses;
pub mod uv;
mod uv_config;
mod venv;
mod watch;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use conclusion::Why;
pub use connection::Connection;
pub use failure::{EnvironmentError, ErrorKind};
pub use host::HostEnv;
pub use index::PlainHttp;
pub use interpreters::Interpreter;
pub use progress::{Phase, PhaseSink};
pub use python::PythonVersion;
pub use request::EnvironmentRequest;
pub use service::Environments;
pub use source::SourceBuilds;
pub use suggest::package_with;

use crate::sandbox::spec::{Mount, Network};

/// How environments are made and kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Where everything is kept; `None` is the user's cache folder.
    pub data_dir: Option<PathBuf>,
    /// uv as the user named it; `None` or a bare `uv` looks everywhere.
    pub uv: Option<PathBuf>,
    /// The Python that the user asked for.
    pub python: Option<PythonVersion>,
    /// Bytes that environments and packages may take together.
    pub cache_size: u64,
    /// After this time requirements are resolved again.
    pub resolve_ttl: Duration,
    /// Whether plain-http indexes are taken.
    pub plain_http: PlainHttp,
    /// Whether packages without a wheel are built from source.
    pub source_builds: SourceBuilds,
    /// Reach of the network for code of packages that are built: that of scripts.
    pub build_network: Network,
}

/// An interpreter with its dependencies, read-only, in use as long as this lives.
#[derive(Debug)]
pub struct Environment {
    /// The executable to start; `sys.executable` inside.
    pub python: PathBuf,
    /// The environment's folder; `sys.prefix` inside.
    pub root: PathBuf,
    /// The interpreter behind it.
    pub interpreter: Interpreter,
    /// What has to be visible, read-only.
    pub mounts: Vec<Mount>,
    /// Variables that belong to it: `VIRTUAL_ENV`, `PATH`.
    pub env: BTreeMap<String, String>,
    /// Its key in the store: the same key is the same files.
    pub key: Arc<str>,
    /// Things the caller should know: which interpreter and why, withdrawn versions.
    pub notes: Vec<String>,
    compiled: bool,
    contents: Option<startup::Contents>,
    in_use: Option<uses::Use>,
    #[cfg_attr(
        not(all(test, unix)),
        expect(dead_code, reason = "held so that the environment is not removed while it is in use")
    )]
    guard: Arc<lock::Lock>,
}

impl Environment {
    /// The same, kept for runs to come and used by none: it stays, and what is done for it in the background need not
    /// wait.
    #[must_use]
    pub fn at_rest(self) -> Self {
        Self { in_use: None, ..self }
    }
}
