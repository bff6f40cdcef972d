//! What a backend can do on this machine: tiers, layers, reasons. Pure data.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A way of building sandboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// The operating system's own means, by this program.
    Native,
    /// A container engine.
    Docker,
    /// No isolation at all.
    None,
}

/// How much a sandbox promises, from most to least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// Nothing.
    None,
    /// Containers.
    Docker,
    /// Landlock, seccomp and limits, without namespaces.
    Confined,
    /// Namespaces, a root of its own, Landlock, seccomp and limits.
    Full,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::Docker => "docker",
            Self::None => "none",
        })
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Docker => "docker",
            Self::Confined => "confined",
            Self::Full => "full",
        })
    }
}

/// What one backend can do here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// Which backend this is.
    pub backend: Backend,
    /// What it promises, or why it cannot be used.
    pub tier: Result<Tier, Refusal>,
    /// The layers that a sandbox of this backend has, each with its state.
    pub layers: Vec<LayerStatus>,
}

/// Why a backend cannot be used, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// What is missing, in one sentence without a full stop.
    pub reason: String,
    /// What to do about it, in one sentence.
    pub remedy: String,
}

/// Name of the part by which the limits of a whole run are kept.
pub const CONTROL_GROUPS: &str = "control groups";

/// One thing that sandboxes are made of, as this machine has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its name: `namespaces`, `landlock` ...
    pub name: &'static str,
    /// How far it is there.
    pub state: LayerState,
    /// What to do for more, in one sentence.
    pub remedy: Option<String>,
}

impl Part {
    /// It is there, with a detail where there is one to tell.
    pub fn there(name: &'static str, detail: Option<String>) -> Self {
        Self { name, state: LayerState::Enforced(detail), remedy: None }
    }

    /// It is not there.
    pub fn missing(name: &'static str, refusal: &Refusal) -> Self {
        let Refusal { reason, remedy } = refusal.clone();
        Self { name, state: LayerState::Absent(reason), remedy: Some(remedy) }
    }
}

/// One layer of isolation and how far it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerStatus {
    /// Its name: `user namespace`, `landlock`, `seccomp` ...
    pub name: String,
    /// How far it holds.
    pub state: LayerState,
}

/// How far a layer holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LayerState {
    /// All that was asked for; with a detail where there is one to tell, such as `ABI 7`.
    Enforced(Option<String>),
    /// Less than was asked for, and what is missing.
    Partial(String),
    /// Not at all, and why.
    Absent(String),
}

impl fmt::Display for LayerStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.state {
            LayerState::Enforced(None) => write!(f, "{}", self.name),
            LayerState::Enforced(Some(detail)) => write!(f, "{} ({detail})", self.name),
            LayerState::Partial(missing) => write!(f, "{} (partly: {missing})", self.name),
            LayerState::Absent(reason) => write!(f, "no {} ({reason})", self.name),
        }
    }
}
