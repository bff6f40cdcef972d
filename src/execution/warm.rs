//! Fetching common packages in advance, in the background, never in the way of a call.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::engine::Engine;
use crate::environment::EnvironmentRequest;
use crate::script::Requirement;

/// Sets of packages that agents' scripts ask for most, one on a line.
const LIST: &str = include_str!("../../profiles/warmup.txt");

/// Longest time for one line of the list.
const LINE_TAKES: Duration = Duration::from_mins(5);

/// The lowest priority (`nice(2)`): a call goes first.
const BACKGROUND: u8 = 19;

/// How far it is.
pub struct Warming(Mutex<String>);

impl Warming {
    /// On or off, as the user said.
    pub fn new(wanted: bool) -> Self {
        Self(Mutex::new(if wanted { "enabled" } else { "disabled" }.to_owned()))
    }

    /// In a few words: `disabled`, `enabled`, `running`, `done`, or why it failed.
    pub fn state(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, state: impl Into<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = state.into();
    }
}

/// Prepares every line of the list, one after the other. Stops at the first failure, with one line in the log.
pub async fn warm(engine: Arc<Engine>) {
    if !engine.settings.warm_cache || engine.sandbox.facts().tier.is_err() {
        return;
    }
    engine.warming.set("running");
    for requirements in lines(LIST) {
        let parsed = requirements.iter().filter_map(|text| Requirement::parse(text).ok()).collect();
        let request = EnvironmentRequest {
            requirements: parsed,
            niceness: BACKGROUND,
            ..EnvironmentRequest::default()
        };
        let deadline = Instant::now() + LINE_TAKES;
        if let Err(error) = engine.environments.prepare(&request, deadline, Arc::new(|_| {})).await {
            tracing::warn!("packages could not be fetched in advance ({}): {error}", requirements.join(" "));
            engine.warming.set(format!("failed: {error}"));
            return;
        }
    }
    engine.warming.set("done");
}

/// The sets of packages that are fetched in advance.
pub fn sets() -> impl Iterator<Item = Vec<String>> {
    lines(LIST)
}

/// Lines with packages: comments and empty ones are left out.
fn lines(list: &str) -> impl Iterator<Item = Vec<String>> {
    list.lines().filter_map(|line| {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        (!words.is_empty()).then_some(words)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_list_is_a_set_of_requirements() {
        let sets: Vec<_> = lines(LIST).collect();
        assert!(!sets.is_empty());
        for set in sets {
            let analysis = crate::script::read("pass", &set);
            assert!(analysis.is_valid(), "{set:?}: {:?}", analysis.problems);
        }
    }
}
