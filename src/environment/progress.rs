//! Tells whoever waits what is being done. Several calls may wait for the same preparation.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Something that is being done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// In a few words.
    pub what: String,
    /// Packages finished.
    pub done: u64,
    /// Packages in all, 0 where not yet known.
    pub total: u64,
}

/// Where phases go. Must be quick.
pub type PhaseSink = Arc<dyn Fn(Phase) + Send + Sync>;

/// Passes phases to everyone who waits, and remembers the last.
#[derive(Clone, Default)]
pub struct Reporter(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    sinks: Vec<PhaseSink>,
    last: Option<Phase>,
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter").field("last", &self.last()).finish()
    }
}

impl Reporter {
    /// Adds someone who waits; the last phase is told at once.
    pub fn add(&self, sink: &PhaseSink) {
        let last = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.sinks.push(sink.clone());
            state.last.clone()
        };
        if let Some(phase) = last {
            sink(phase);
        }
    }

    /// Tells everyone.
    pub fn phase(&self, what: &str, done: u64, total: u64) {
        let phase = Phase { what: what.to_owned(), done, total };
        let sinks = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.last = Some(phase.clone());
            state.sinks.clone()
        };
        for sink in sinks {
            sink(phase.clone());
        }
    }

    /// Notes a phase that somebody else tells.
    pub fn remember(&self, phase: &Phase) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).last = Some(phase.clone());
    }

    /// What was told last.
    pub fn last(&self) -> Option<Phase> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).last.clone()
    }
}
