//! A sandbox that confines nothing, for tests of this room alone.

pub mod index;

use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::sandbox::facts::{Backend, Facts};
use crate::sandbox::{
    BoxFuture, Control, ExitStatus, Outcome, Running, Sandbox, SandboxSpec, StartError, Usage, WaitError,
};

/// Starts the program as it stands, with exactly the environment of the specification.
#[derive(Debug)]
pub struct Unconfined {
    facts: Facts,
    starts: AtomicUsize,
    urgent: AtomicUsize,
}

impl Unconfined {
    pub fn new() -> Self {
        Self { facts: facts(), starts: AtomicUsize::new(0), urgent: AtomicUsize::new(0) }
    }

    /// Programs that were started.
    pub fn starts(&self) -> usize {
        self.starts.load(Ordering::SeqCst)
    }
}

impl Unconfined {
    /// Those among them that give way to nothing.
    pub fn urgent(&self) -> usize {
        self.urgent.load(Ordering::SeqCst)
    }
}

struct Child(tokio::process::Child);

impl Sandbox for Unconfined {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn explain(&self, spec: &SandboxSpec) -> Result<String, StartError> {
        Ok(format!("{spec:?}"))
    }

    fn start<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<Running, StartError>> {
        Box::pin(async move {
            self.starts.fetch_add(1, Ordering::SeqCst);
            self.urgent.fetch_add(usize::from(spec.limits.niceness == 0), Ordering::SeqCst);
            let mut child = tokio::process::Command::new(&spec.command.program)
                .args(&spec.command.args)
                .env_clear()
                .envs(&spec.command.env)
                .current_dir(&spec.command.cwd)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .kill_on_drop(true)
                .spawn()
                .map_err(|source| StartError::Io { context: "spawn", source })?;
            Ok(Running {
                stdout: Box::new(child.stdout.take().expect("piped")),
                stderr: Box::new(child.stderr.take().expect("piped")),
                channel: None,
                work_dir: None,
                layers: Vec::new(),
                control: Box::new(Child(child)),
            })
        })
    }
}

impl Control for Child {
    fn wait(&mut self) -> BoxFuture<'_, Result<Outcome, WaitError>> {
        Box::pin(async {
            let status = self.0.wait().await.map_err(|error| WaitError::Lost(error.to_string()))?;
            let status = status.code().map_or(ExitStatus::Signaled(9), ExitStatus::Exited);
            Ok(Outcome { status, limit: None, usage: Usage::default() })
        })
    }

    fn kill(&mut self) {
        let _ = self.0.start_kill();
    }
}

fn facts() -> Facts {
    Facts { backend: Backend::None, tier: Ok(crate::sandbox::Tier::None), layers: Vec::new() }
}
