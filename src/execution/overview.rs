//! What this machine offers and how the server is set up. Pure data.

use crate::sandbox::{Backend, LayerStatus, Tier, facts::Refusal, spec::Limits, spec::Network};

/// The state behind `check_environment`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// The interpreter that runs use by default (`3.13.0`), or why there is none.
    pub python: Result<String, String>,
    /// uv's version and path, or why there is none.
    pub uv: Result<String, String>,
    /// Operating system, kernel and architecture.
    pub platform: String,
    /// The chosen backend.
    pub backend: Backend,
    /// What it promises, or why it cannot be used.
    pub tier: Result<Tier, Refusal>,
    /// Its layers.
    pub layers: Vec<LayerStatus>,
    /// Reach of the network.
    pub network: Network,
    /// Limits of one run.
    pub limits: Limits,
    /// Seconds for a call that names no timeout.
    pub default_timeout: u64,
    /// Seconds at most.
    pub max_timeout: u64,
    /// Bytes kept of each stream.
    pub max_output_bytes: usize,
    /// Whether packages are fetched in advance: `off`, `running`, `done`, or why it failed.
    pub warming: String,
    /// Things the user should know.
    pub notes: Vec<String>,
}
