//! Runs under way, so that nothing is started in their way. Pure bookkeeping.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A run that has lasted this long is taken for one that waits or goes on and on: it no longer keeps the pool from being
/// filled.
const YOUNG: Duration = Duration::from_secs(1);

/// Runs, by number, with their start.
#[derive(Default)]
pub struct Runs(Mutex<(u64, BTreeMap<u64, Instant>)>);

impl Runs {
    /// Notes a run's start and gives its number.
    pub fn begin(&self, now: Instant) -> u64 {
        let (last, runs) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *last += 1;
        runs.insert(*last, now);
        *last
    }

    /// Notes its end.
    pub fn end(&self, number: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&number);
    }

    /// Whether fewer young runs are under way than there are processors.
    pub fn processor_is_free(&self, now: Instant) -> bool {
        // Found out once: the standard library reads files for it.
        static PROCESSORS: OnceLock<usize> = OnceLock::new();
        let count = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.young(now).count() < *PROCESSORS.get_or_init(count)
    }

    /// When that may change by time alone.
    pub fn next_change(&self, now: Instant) -> Option<Instant> {
        self.young(now).min().map(|start| start + YOUNG)
    }

    fn young(&self, now: Instant) -> impl Iterator<Item = Instant> {
        let runs = &self.0.lock().unwrap_or_else(PoisonError::into_inner).1;
        let young: Vec<Instant> = runs.values().copied().filter(|&start| now < start + YOUNG).collect();
        young.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_runs_do_not_count() {
        let (runs, now) = (Runs::default(), Instant::now());
        let numbers: Vec<u64> = (0..64).map(|_| runs.begin(now)).collect();
        assert!(!runs.processor_is_free(now) || numbers.len() < 64);
        assert_eq!(runs.next_change(now), Some(now + YOUNG));
        assert!(runs.processor_is_free(now + YOUNG));
        for number in numbers {
            runs.end(number);
        }
        assert!(runs.processor_is_free(now));
        assert_eq!(runs.next_change(now), None);
    }
}
