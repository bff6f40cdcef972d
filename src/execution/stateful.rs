//! What a stateful sandbox takes from the engine: the same environment, specification and limits as a single run.

use std::sync::Arc;

use tokio::time::Instant;

use super::engine::Engine;
use super::report::ExecutionError;
use super::request::{Progress, ProgressSink};
use super::{FailureKind, failure};
use crate::environment::{Environment, EnvironmentRequest, Phase};
use crate::sandbox::Running;
use crate::sandbox::spec::{Mount, SandboxSpec};
use crate::settings::Settings;

impl Engine {
    /// How this program was asked to behave.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// An environment for a stateful sandbox.
    pub async fn session_environment(
        &self,
        request: &EnvironmentRequest,
        deadline: Instant,
        progress: &ProgressSink,
    ) -> Result<Environment, ExecutionError> {
        self.usable()?;
        let progress = Arc::clone(progress);
        let phases = Arc::new(move |phase: Phase| {
            progress(Progress::Preparing { what: phase.what, done: phase.done, total: phase.total });
        });
        let prepared = self.environments.prepare(request, deadline, phases).await;
        prepared.map_err(|error| failure::environment(&error, &[]))
    }

    /// What a stateful sandbox may see and use: what a script may, a folder for packages that come later, and a channel.
    pub fn session_spec(&self, environment: &Environment, args: Vec<String>, packages: Mount) -> SandboxSpec {
        let mut spec = self.spec(environment, b"");
        spec.command.args = args;
        spec.files.clear();
        spec.mounts.push(packages);
        spec.channel = true;
        spec
    }

    /// Builds the sandbox and starts its program.
    pub async fn start_session(
        &self,
        spec: &SandboxSpec,
        deadline: Instant,
    ) -> Result<Running, ExecutionError> {
        let started = tokio::time::timeout_at(deadline, self.sandbox.start(spec)).await;
        let failed = |message| ExecutionError {
            kind: FailureKind::Sandbox,
            message,
            detail: String::new(),
            notes: Vec::new(),
        };
        match started {
            Ok(Ok(running)) => Ok(running),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(_) => Err(failed("the sandbox was not ready in time".to_owned())),
        }
    }
}
