//! Which calls may start: those that make large results wait here, rather than with their results in memory.

use tokio::sync::{Semaphore, SemaphorePermit};

use super::outbox::Outbox;
use crate::execution::{ExecutionError, Queue};

/// While more than this waits to be read by the client, no further call is started.
const BACKLOG: usize = 4 << 20;

/// Places for calls; first come, first served.
pub struct Gate {
    places: Semaphore,
    queue: Queue,
    outbox: Option<Outbox>,
}

impl Gate {
    /// As many places as keep `concurrent` runs busy. Without an outbox nobody is waited for: each answer then has a
    /// connection of its own.
    pub fn new(concurrent: usize, outbox: Option<Outbox>) -> Self {
        // As many again may wait inside: the next run then starts without a round trip through here.
        let places = Semaphore::new(concurrent.clamp(1, Semaphore::MAX_PERMITS / 2) * 2);
        Self { places, queue: Queue::new(concurrent), outbox }
    }

    /// Waits for a client that reads, without a place: for calls that wait elsewhere for their turn.
    pub async fn client_reads(&self) {
        if let Some(outbox) = &self.outbox {
            outbox.below(BACKLOG).await;
        }
    }

    /// Waits for a place, and for a client that reads. The place is free again when what is returned is dropped. Where
    /// too many wait already, an error at once.
    pub async fn enter(&self) -> Result<Option<SemaphorePermit<'_>>, ExecutionError> {
        let place = if let Ok(place) = self.places.try_acquire() {
            Some(place)
        } else {
            let _turn = self.queue.join()?;
            // The semaphore is never closed, so there always is a place.
            self.places.acquire().await.ok()
        };
        self.client_reads().await;
        Ok(place)
    }
}
