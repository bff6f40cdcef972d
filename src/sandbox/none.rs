//! No isolation: the program runs on the host as the user, and every report says so. Supervision is the same as
//! elsewhere: nothing that it started outlives it.

use super::facts::Refusal;
use super::linux::LinuxSandbox;
use super::spec::{Limits, SandboxSpec};
use super::{BoxFuture, Facts, Running, Sandbox, StartError};

/// Runs programs without isolation.
pub struct Unconfined {
    supervised: LinuxSandbox,
}

impl Unconfined {
    /// Nothing has to be found out: it works wherever a process can be started.
    pub fn new() -> Self {
        Self { supervised: LinuxSandbox::unconfined() }
    }
}

impl Default for Unconfined {
    fn default() -> Self {
        Self::new()
    }
}

impl Sandbox for Unconfined {
    fn facts(&self) -> &Facts {
        self.supervised.facts()
    }

    fn carries(&self, limits: &Limits) -> Result<(), Refusal> {
        self.supervised.carries(limits)
    }

    fn explain(&self, spec: &SandboxSpec) -> Result<String, StartError> {
        self.supervised.explain(spec)
    }

    fn start<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<Running, StartError>> {
        self.supervised.start(spec)
    }
}
