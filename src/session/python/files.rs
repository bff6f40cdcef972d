//! The files of a sandbox, by whatever its backend hands over.

use std::sync::Arc;

use super::by_driver::{ByDriver, SharedDriver};
use crate::sandbox::Running;
#[cfg(native)]
use crate::workspace::beneath::Beneath;
use crate::workspace::{FileError, Workspace};

/// The files of one sandbox.
#[derive(Clone, Debug)]
pub enum Files {
    /// By a descriptor of the work directory, which outlives the sandbox.
    #[cfg(native)]
    Beneath(Beneath),
    /// By the driver inside, as long as it lives.
    Driver,
}

impl Files {
    /// Takes the work directory of a sandbox that was just started.
    pub fn of(running: &mut Running) -> Self {
        #[cfg(native)]
        if let Some(folder) = running.work_dir.take() {
            return Self::Beneath(Beneath::new(folder));
        }
        let _ = running;
        Self::Driver
    }

    /// For callers that do not care how.
    pub fn workspace(&self, driver: &SharedDriver) -> Arc<dyn Workspace> {
        match self {
            #[cfg(native)]
            Self::Beneath(files) => Arc::new(files.clone()),
            Self::Driver => Arc::new(ByDriver(Arc::clone(driver))),
        }
    }

    /// Copies what is in the work directory of a sandbox that was lost into this one. False where nothing is left of it.
    #[cfg_attr(not(native), expect(clippy::unused_async, reason = "only the Linux backend waits here"))]
    pub async fn take_over(&self, from: &Self) -> Result<bool, FileError> {
        match (self, from) {
            #[cfg(native)]
            (Self::Beneath(files), Self::Beneath(from)) => files.take_over(from).await,
            _ => Ok(false),
        }
    }
}
