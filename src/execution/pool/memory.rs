//! Whether memory is scarce, on this machine or in the container that this process is in.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::sandbox::machine::Memory;

/// Below this part of all memory the pool gives its own back.
const PART: u64 = 10;

/// How long a look holds: it reads several files of the kernel, and a few sandboxes at most are started until the next.
const HOLDS: Duration = Duration::from_millis(50);

/// The last look, and when it was taken.
#[derive(Default)]
pub struct Scarcity(Mutex<Option<(Instant, bool)>>);

impl Scarcity {
    /// Whether less than a tenth of the memory is available, or was a moment ago.
    pub fn at(&self, now: Instant) -> bool {
        // Where the machine does not tell, the bound on the pool's size has to do.
        self.seen(now, || Memory::now().into_iter().any(scarce))
    }

    fn seen(&self, now: Instant, look: impl FnOnce() -> bool) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match *last {
            Some((at, is_scarce)) if now < at + HOLDS => is_scarce,
            _ => last.insert((now, look())).1,
        }
    }
}

fn scarce(memory: Memory) -> bool {
    memory.available < memory.total / PART
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_is_the_border() {
        assert!(!scarce(Memory { total: 1000, available: 100 }));
        assert!(scarce(Memory { total: 1000, available: 99 }));
    }

    #[test]
    fn a_look_holds_for_a_moment() {
        let (scarcity, now) = (Scarcity::default(), Instant::now());
        assert!(scarcity.seen(now, || true));
        assert!(scarcity.seen(now + HOLDS / 2, || false));
        assert!(!scarcity.seen(now + HOLDS, || false));
        assert!(!scarcity.seen(now + HOLDS, || true));
    }
}
