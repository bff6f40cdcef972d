//! Which calls may start: those that make large results wait here, rather than with their results in memory.

use tokio::sync::{Semaphore, SemaphorePermit};

use super::outbox::Outbox;

/// While more than this waits to be read by the client, no further call is started.
const BACKLOG: usize = 4 << 20;

/// Places for calls; first come, first served.
pub struct Gate {
    places: Semaphore,
    outbox: Option<Outbox>,
}

impl Gate {
    /// As many places as keep `concurrent` runs busy. Without an outbox nobody is waited for: each answer then has a
    /// connection of its own.
    pub fn new(concurrent: usize, outbox: Option<Outbox>) -> Self {
        // As many again may wait inside: the next run then starts without a round trip through here.
        Self { places: Semaphore::new(concurrent.clamp(1, Semaphore::MAX_PERMITS / 2) * 2), outbox }
    }

    /// Waits for a client that reads, without a place: for calls that wait elsewhere for their turn.
    pub async fn client_reads(&self) {
        if let Some(outbox) = &self.outbox {
            outbox.below(BACKLOG).await;
        }
    }

    /// Waits for a place, and for a client that reads. The place is free again when what is returned is dropped.
    pub async fn enter(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed, so there always is a place.
        let place = self.places.acquire().await.ok();
        self.client_reads().await;
        place
    }
}
