//! The order of the worker's layers, in types: each stage consumes the one before, so none can be left out or
//! moved. Also how a stage fails, and when each one ended.

use std::io;
use std::marker::PhantomData;
use std::time::Instant;

use super::status::Failure;
use crate::sandbox::facts::{LayerState, LayerStatus};

/// A stage that failed. Whoever catches it reports it and ends.
pub struct Failed(pub Failure);

impl Failed {
    pub fn errno(stage: &str, detail: impl Into<String>, error: rustix::io::Errno) -> Self {
        Self::io(stage, detail, &io::Error::from(error))
    }

    pub fn io(stage: &str, detail: impl Into<String>, error: &io::Error) -> Self {
        let detail = format!("{}: {error}", detail.into());
        Self(Failure { stage: stage.to_owned(), detail, errno: error.raw_os_error() })
    }

    pub fn plain(stage: &str, detail: impl Into<String>) -> Self {
        Self(Failure { stage: stage.to_owned(), detail: detail.into(), errno: None })
    }
}

/// When each stage ended, in microseconds since the launcher's start.
#[derive(Clone)]
pub struct Clock {
    start: Instant,
    marks: Vec<(String, u64)>,
}

impl Clock {
    pub fn start() -> Self {
        Self { start: Instant::now(), marks: Vec::with_capacity(16) }
    }

    pub fn mark(&mut self, stage: &str) {
        let elapsed = u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.marks.push((stage.to_owned(), elapsed));
    }

    pub fn into_marks(self) -> Vec<(String, u64)> {
        self.marks
    }
}

/// The root stands (or there is none of its own); nothing is limited yet.
pub struct Rooted;
/// Kernel limits are set.
pub struct Limited;
/// No capability is left, none can be gained.
pub struct Unprivileged;
/// Access by path is limited.
pub struct Restricted;
/// System calls are filtered: all that is left is exec.
pub struct Filtered;

/// The worker on its way to the program.
pub struct Worker<S> {
    pub layers: Vec<LayerStatus>,
    pub clock: Clock,
    stage: PhantomData<S>,
}

impl Worker<Rooted> {
    pub fn new(layers: Vec<LayerStatus>, clock: Clock) -> Self {
        Self { layers, clock, stage: PhantomData }
    }
}

impl<S> Worker<S> {
    /// Goes on to the next stage with the layer that this one set up.
    pub fn advance<Next>(mut self, mark: &str, layer: LayerStatus) -> Worker<Next> {
        self.layers.push(layer);
        self.clock.mark(mark);
        Worker { layers: self.layers, clock: self.clock, stage: PhantomData }
    }
}

pub fn enforced(name: &str) -> LayerStatus {
    LayerStatus { name: name.to_owned(), state: LayerState::Enforced(None) }
}

pub fn enforced_with(name: &str, detail: String) -> LayerStatus {
    LayerStatus { name: name.to_owned(), state: LayerState::Enforced(Some(detail)) }
}

pub fn absent(name: &str, reason: impl Into<String>) -> LayerStatus {
    LayerStatus { name: name.to_owned(), state: LayerState::Absent(reason.into()) }
}

pub fn partial(name: &str, missing: impl Into<String>) -> LayerStatus {
    LayerStatus { name: name.to_owned(), state: LayerState::Partial(missing.into()) }
}
