//! What this machine offers and how the server is set up. Pure data.

use crate::sandbox::{Backend, LayerStatus, Tier, facts::Refusal, spec::Limits, spec::Network};
use crate::settings::Settings;

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
    /// Why there is no better one, where there is one.
    pub shortfall: Option<Refusal>,
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

impl Overview {
    /// What can be told where the server cannot run anything.
    pub fn unusable(settings: &Settings, reason: &str) -> Self {
        let refusal =
            Refusal { reason: reason.to_owned(), remedy: "Correct it and start the server again".to_owned() };
        Self {
            python: Err("not looked for".to_owned()),
            uv: Err("not looked for".to_owned()),
            platform: std::env::consts::OS.to_owned(),
            backend: settings.backend,
            tier: Err(refusal),
            shortfall: None,
            layers: Vec::new(),
            network: settings.network,
            limits: settings.limits,
            default_timeout: settings.default_timeout,
            max_timeout: settings.max_timeout,
            max_output_bytes: settings.max_output_bytes,
            warming: "disabled".to_owned(),
            notes: Vec::new(),
        }
    }
}
