//! One program in one sandbox, from start to end, under a deadline.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::capture::capture;
use super::output::Left;
use super::report::Captured;
use super::request::{Progress, ProgressSink};
use crate::sandbox::{
    Control, ExitStatus, LayerStatus, Outcome, Running, Sandbox, SandboxSpec, StartError, Usage, WaitError,
};

/// How long a kill may take before the run is given up: a fork bomb is gone within a second.
const KILL_TAKES: Duration = Duration::from_secs(5);

/// What came of it.
#[derive(Debug)]
pub struct Finished {
    /// Standard output.
    pub stdout: Captured,
    /// Standard error.
    pub stderr: Captured,
    /// How it ended; killed by signal 9 after a timeout.
    pub outcome: Outcome,
    /// Whether the deadline ended it.
    pub timed_out: bool,
    /// Layers that were enforced.
    pub layers: Vec<LayerStatus>,
    /// Files that the program left.
    pub left: Left,
    /// What is left of it on this side. The run is over; this only takes a while to be put away.
    pub remains: Running,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The sandbox was not started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The end cannot be told.
    #[error(transparent)]
    Wait(#[from] WaitError),
    /// The deadline passed before the program was started.
    #[error("the time was up before the program was started")]
    Late,
}

/// Starts the specification's program and waits for its end or the deadline, whichever is first.
pub async fn run(
    sandbox: &dyn Sandbox,
    spec: &SandboxSpec,
    deadline: Instant,
    output_limit: usize,
    progress: Option<&ProgressSink>,
) -> Result<Finished, RunError> {
    let running = start(sandbox, spec, deadline).await?;
    attend(running, deadline, output_limit, progress).await
}

/// Starts the specification's program, unless the time is up before.
pub async fn start(
    sandbox: &dyn Sandbox,
    spec: &SandboxSpec,
    deadline: Instant,
) -> Result<Running, RunError> {
    let started = tokio::time::timeout_at(deadline, sandbox.start(spec)).await;
    Ok(started.map_err(|_| RunError::Late)??)
}

/// Waits for a program's end or the deadline, whichever is first.
pub async fn attend(
    mut running: Running,
    deadline: Instant,
    output_limit: usize,
    progress: Option<&ProgressSink>,
) -> Result<Finished, RunError> {
    if let Some(progress) = progress {
        progress(Progress::Running);
    }
    let (ended, watching) = watch::channel(false);
    let (stdout, stderr) = running.take_streams();
    let stdout = capture(stdout, output_limit, watching.clone(), progress.cloned());
    let stderr = capture(stderr, output_limit, watching, progress.cloned());
    let end = async {
        let end = end_or_kill(running.control.as_mut(), deadline).await;
        ended.send_replace(true);
        end
    };
    let (stdout, stderr, end) = tokio::join!(stdout, stderr, end);
    let (outcome, timed_out) = end?;
    let layers = std::mem::take(&mut running.layers);
    let left = super::output::left_by(&mut running).await;
    Ok(Finished { stdout, stderr, outcome, timed_out, layers, left, remains: running })
}

/// The outcome, and whether the deadline brought it about.
async fn end_or_kill(control: &mut dyn Control, deadline: Instant) -> Result<(Outcome, bool), WaitError> {
    if let Ok(end) = tokio::time::timeout_at(deadline, control.wait()).await {
        return end.map(|outcome| (outcome, false));
    }
    control.kill();
    match tokio::time::timeout(KILL_TAKES, control.wait()).await {
        Ok(Ok(outcome)) => Ok((outcome, true)),
        Ok(Err(WaitError::Killed)) => Ok((killed(), true)),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(WaitError::Lost("it could not be killed within 5 seconds".to_owned())),
    }
}

/// What is known of a run that was killed at its deadline.
fn killed() -> Outcome {
    Outcome { status: ExitStatus::Signaled(9), limit: None, usage: Usage::default() }
}
