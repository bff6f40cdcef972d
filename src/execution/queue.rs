//! A queue with an end: who comes when it is full is told to try again, and nothing grows.
//!
//! It counts only; who is served first is up to what its members wait for.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::failure;
use super::report::ExecutionError;

/// Calls that wait for a place, for each place.
const WAITING_PER_PLACE: usize = 16;

/// Calls that wait.
pub struct Queue {
    places: usize,
    waiting: AtomicUsize,
}

impl Queue {
    /// For so many places.
    pub fn new(places: usize) -> Self {
        Self { places, waiting: AtomicUsize::new(0) }
    }

    /// Counts a call for as long as what is returned lives; an error where too many wait already.
    pub fn join(&self) -> Result<Turn<'_>, ExecutionError> {
        let most = self.places.saturating_mul(WAITING_PER_PLACE);
        let turn = Turn(&self.waiting);
        if self.waiting.fetch_add(1, Ordering::Relaxed) < most {
            return Ok(turn);
        }
        Err(failure::busy(self.places, most))
    }
}

/// One call that waits.
pub struct Turn<'a>(&'a AtomicUsize);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execution::FailureKind;

    #[test]
    fn a_full_queue_says_so_and_has_room_again_when_somebody_leaves() {
        let queue = Queue::new(2);
        let mut turns: Vec<_> = (0..2 * WAITING_PER_PLACE).map(|_| queue.join().expect("room")).collect();
        for _ in 0..3 {
            let refused = queue.join().err().expect("it is full");
            assert_eq!(refused.kind, FailureKind::Busy);
            assert!(refused.message.contains("try again"), "{}", refused.message);
        }
        turns.pop();
        assert!(queue.join().is_ok());
    }
}
