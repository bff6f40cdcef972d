//! A container whose program has been started before its script is known, and waits for it in opening it. The first
//! process hands the script over, as `init.py` says.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

use super::container::Started;
use super::{Usable, frame};
use crate::sandbox::{Running, StartError, Waiting};

/// A program that waits for its script.
pub struct Waiter {
    slot: Arc<Slot>,
    /// Ends it when the server ends.
    closing: AbortHandle,
    usable: Arc<Usable>,
    /// The image that it was made of.
    image: String,
}

/// Empty once it was used, or when the server ends.
struct Slot(Mutex<Option<Started>>);

impl Slot {
    fn open(&self) -> MutexGuard<'_, Option<Started>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter {
    /// One that waits already.
    pub fn new(started: Started, usable: Arc<Usable>, image: String) -> Self {
        let slot = Arc::new(Slot(Mutex::new(Some(started))));
        let (held, containers) = (Arc::clone(&slot), usable.containers.clone());
        let closing = tokio::spawn(async move {
            containers.closing().await;
            held.open().take();
        });
        Self { slot, closing: closing.abort_handle(), usable, image }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.closing.abort();
        self.slot.open().take();
    }
}

impl Waiting for Waiter {
    fn is_fit(&self) -> bool {
        let same_image = self.usable.ready.is(&self.image);
        same_image && self.slot.open().as_mut().is_some_and(Started::is_alive)
    }

    fn deliver(self: Box<Self>, script: &Arc<[u8]>) -> Result<Running, StartError> {
        let started = self.slot.open().take();
        let gone = || StartError::Unsupported("the waiting container is gone".to_owned());
        Ok(started.ok_or_else(gone)?.run(frame::file(script)))
    }
}
