//! One session at work: it takes its calls in order, one at a time, and ends by itself when nobody calls for long.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::error::Ended;
use super::interpreter::Kernel;
use crate::sandbox::BoxFuture;

/// Work for the kernel. Whoever wants an answer has put a way back into it.
pub type Job = Box<dyn for<'a> FnOnce(&'a mut dyn Kernel) -> BoxFuture<'a, ()> + Send>;

/// Calls that wait for one session.
pub const QUEUE: usize = 64;

/// What is known of a session without asking its kernel.
#[derive(Debug)]
pub struct Info {
    /// When it was made.
    pub created: Instant,
    /// When the last call ended.
    pub last_used: Instant,
    /// Whether a call is being worked on.
    pub busy: bool,
    /// Cells that were run.
    pub cells: u64,
    /// Packages that were installed, with their versions.
    pub packages: BTreeMap<String, String>,
}

/// Shared between the session and those who ask.
#[derive(Clone, Debug)]
pub struct SharedInfo(Arc<Mutex<Info>>);

impl SharedInfo {
    /// A session that was made just now.
    pub fn new() -> Self {
        let now = Instant::now();
        let (cells, packages) = (0, BTreeMap::new());
        Self(Arc::new(Mutex::new(Info { created: now, last_used: now, busy: false, cells, packages })))
    }

    /// For a look or a change.
    pub fn lock(&self) -> MutexGuard<'_, Info> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn working(&self, busy: bool) {
        let mut info = self.lock();
        info.busy = busy;
        info.last_used = Instant::now();
    }
}

/// Works through the jobs until the session is closed or nobody has used it for `idle_limit`. Every process of the
/// kernel is gone when this returns.
pub async fn work(
    mut kernel: Box<dyn Kernel>,
    mut jobs: mpsc::Receiver<Job>,
    info: SharedInfo,
    idle_limit: Duration,
    closing: CancellationToken,
) -> Ended {
    let ended = loop {
        let next = tokio::select! {
            biased;
            () = closing.cancelled() => break Ended::Closed,
            next = timeout(idle_limit, jobs.recv()) => next,
        };
        let job = match next {
            Ok(Some(job)) => job,
            Ok(None) => break Ended::Closed,
            Err(_) => break Ended::Idle(idle_limit),
        };
        info.working(true);
        let closed = tokio::select! {
            biased;
            () = closing.cancelled() => true,
            () = job(kernel.as_mut()) => false,
        };
        info.working(false);
        if closed {
            break Ended::Closed;
        }
    };
    // What waits is told by its way back being dropped.
    drop(jobs);
    kernel.close().await;
    ended
}
