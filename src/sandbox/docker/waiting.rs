//! A container whose program has been started before its script is known, and waits for it in opening it. The first
//! process hands the script over, as `init.py` says.

use std::sync::{Arc, Mutex, PoisonError};

use super::container::Started;
use super::{Usable, frame};
use crate::sandbox::{Running, StartError, Waiting};

/// A program that waits for its script.
pub struct Waiter {
    started: Mutex<Started>,
    usable: Arc<Usable>,
    /// The image that it was made of.
    image: String,
}

impl Waiter {
    /// One that waits already.
    pub fn new(started: Started, usable: Arc<Usable>, image: String) -> Self {
        Self { started: Mutex::new(started), usable, image }
    }
}

impl Waiting for Waiter {
    fn is_fit(&self) -> bool {
        let same_image = self.usable.ready.is(&self.image);
        same_image && self.started.lock().unwrap_or_else(PoisonError::into_inner).is_alive()
    }

    fn deliver(self: Box<Self>, script: &Arc<[u8]>) -> Result<Running, StartError> {
        let started = self.started.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(started.run(frame::file(script)))
    }
}
