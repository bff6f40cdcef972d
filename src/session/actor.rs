//! One session at work: it takes its calls in order, one at a time, and ends by itself when nobody calls for long.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
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
    /// When the last call came or ended.
    pub last_used: Instant,
    /// Calls that are being worked on or wait. Those that only look are none of them.
    pub uses: usize,
    /// Cells that were run.
    pub cells: u64,
    /// Packages that were installed, with their versions.
    pub packages: BTreeMap<String, String>,
    /// How it ended, where it takes no calls any more.
    pub ended: Option<Ended>,
}

/// Shared between the session and those who ask.
#[derive(Clone, Debug)]
pub struct SharedInfo(Arc<Mutex<Info>>);

impl SharedInfo {
    /// A session that was made just now.
    pub fn new() -> Self {
        let now = Instant::now();
        let (cells, packages) = (0, BTreeMap::new());
        let info = Info { created: now, last_used: now, uses: 0, cells, packages, ended: None };
        Self(Arc::new(Mutex::new(info)))
    }

    /// For a look or a change.
    pub fn lock(&self) -> MutexGuard<'_, Info> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call that counts as use, from now until what is returned is dropped.
    pub fn using(&self) -> Using {
        self.used(|uses| uses + 1);
        Using(self.clone())
    }

    fn used(&self, count: impl FnOnce(usize) -> usize) {
        let mut info = self.lock();
        info.uses = count(info.uses);
        info.last_used = Instant::now();
    }
}

/// One use of a session: as long as this lives the session is busy, and its idle time begins at the end of it.
#[derive(Debug)]
pub struct Using(SharedInfo);

impl Drop for Using {
    fn drop(&mut self) {
        self.0.used(|uses| uses - 1);
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
    // Starting it took time that nobody could use.
    info.used(|uses| uses);
    let ended = loop {
        let idle_from = info.lock().last_used;
        let next = tokio::select! {
            biased;
            () = closing.cancelled() => break Ended::Closed,
            next = timeout_at(idle_from + idle_limit, jobs.recv()) => next,
        };
        let job = match next {
            Ok(Some(job)) => job,
            Ok(None) => break Ended::Closed,
            Err(_) => break Ended::Idle(idle_limit),
        };
        let closed = tokio::select! {
            biased;
            () = closing.cancelled() => true,
            () = job(kernel.as_mut()) => false,
        };
        if closed {
            break Ended::Closed;
        }
    };
    // What waits is told by its way back being dropped, and finds the reason here.
    info.lock().ended = Some(ended);
    drop(jobs);
    kernel.close().await;
    ended
}
