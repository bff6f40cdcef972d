//! Sandboxes that are finished before they are needed: their interpreter waits for a script. Each is used once.
//!
//! A shelf holds the waiting sandboxes of one specification, which names the environment, the variables and the limits:
//! nothing that waits differs from what would be built for the call. Shelves fill up again after an answer is out, while
//! a processor is free, and are emptied when nobody has asked for a while or memory becomes scarce.
//!
//! Invariant: it never sees a script, and a call that finds nothing here is run as if there were no pool.

mod memory;
mod preload;
mod runs;
mod shelves;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::engine::SCRIPT;
use crate::environment::Environment;
use crate::sandbox::{Running, Sandbox, SandboxSpec, Waiting};
use memory::Scarcity;
use runs::Runs;
use shelves::{Found, Shelves, Start};

/// A program that waits for its script.
pub struct Slot {
    /// The program.
    pub waiting: Box<dyn Waiting>,
    /// Modules that it has imported already, where the user asked for that.
    pub imported: Arc<[String]>,
}

impl Slot {
    /// What the result has to say about it.
    pub fn note(&self) -> Option<String> {
        preload::note(&self.imported)
    }
}

/// A run whose answer is ready.
pub struct Over {
    /// What its sandbox was.
    pub spec: SandboxSpec,
    /// Its environment.
    pub environment: Environment,
    /// What is left of its sandbox on this side.
    pub remains: Running,
}

/// Time that the answer has to get out before anything is put away or started in its place.
const AFTER_AN_ANSWER: Duration = Duration::from_millis(2);

/// Longest time until a program waits for its script: what it imports before may be slow, or never come to an end.
const STARTING_TAKES: Duration = Duration::from_secs(20);

/// Longest time that a call waits for one that is being started, where that is less than half of the time it has: the
/// other half is for a run without the pool.
const COMING_TAKES: Duration = Duration::from_secs(5);

/// The pool of one server.
pub struct Pool {
    inner: Arc<Inner>,
    tending: OnceLock<AbortHandle>,
}

struct Inner {
    sandbox: Arc<dyn Sandbox>,
    /// Modules that are imported in advance where the environment holds them.
    preload: Vec<String>,
    shelves: Mutex<Shelves<Slot, Environment>>,
    /// What the next sandbox is most likely to be, and since when nobody has asked for one.
    next: Mutex<Option<(SandboxSpec, Instant)>>,
    runs: Runs,
    scarcity: Scarcity,
    /// There may be something to do.
    wake: Notify,
}

impl Pool {
    /// A pool of at most `size` waiting sandboxes, with these modules imported where they are there; none is started
    /// yet.
    pub fn new(size: usize, preload: Vec<String>, sandbox: Arc<dyn Sandbox>) -> Self {
        let shelves = Mutex::new(Shelves::new(size));
        let (next, runs, wake) = (Mutex::default(), Runs::default(), Notify::new());
        let inner = Inner { sandbox, preload, shelves, next, runs, scarcity: Scarcity::default(), wake };
        Self { inner: Arc::new(inner), tending: OnceLock::new() }
    }

    /// Counts a run for as long as the answer lives.
    pub fn begin_run(&self) -> Run<'_> {
        Run { pool: self, number: self.inner.runs.begin(Instant::now()) }
    }

    /// A waiting sandbox that is what this specification asks for. Waits for one that is being started already.
    pub async fn take(&self, spec: &SandboxSpec, deadline: Instant) -> Option<Slot> {
        let now = Instant::now();
        let found = self.inner.shelves().take(spec, now, |slot| slot.waiting.is_fit());
        let half = deadline.saturating_duration_since(now) / 2;
        match found {
            Found::Ready(slot) => Some(slot),
            Found::Starting(coming) => timeout(half.min(COMING_TAKES), coming).await.ok()?.ok(),
            Found::Nothing => None,
        }
    }

    /// A run with this specification is expected: sandboxes get to wait for it. The environment stays as long as
    /// something waits for it.
    pub fn keep(&self, spec: &SandboxSpec, environment: Environment) {
        self.inner.keep(spec, environment);
        self.tend();
    }

    /// The same after a run: others like it are likely. It is done once the answer is out.
    pub fn keep_later(&self, over: Over) {
        self.tend();
        let inner = Arc::clone(&self.inner);
        tokio::spawn(async move {
            sleep(AFTER_AN_ANSWER).await;
            let Over { spec, environment, remains } = over;
            drop(remains);
            inner.keep(&spec, environment);
            inner.wake.notify_one();
        });
    }

    /// Starts looking after the shelves, once.
    fn tend(&self) {
        self.tending.get_or_init(|| {
            let inner = Arc::clone(&self.inner);
            tokio::spawn(async move { inner.tend().await }).abort_handle()
        });
        self.inner.wake.notify_one();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(tending) = self.tending.get() {
            tending.abort();
        }
    }
}

/// A run under way.
pub struct Run<'a> {
    pool: &'a Pool,
    number: u64,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.pool.inner.runs.end(self.number);
        self.pool.inner.wake.notify_one();
    }
}

/// Code of packages that the interpreter runs at its start would run while nobody has called, with nobody's deadline:
/// such an environment does not wait.
fn poolable(environment: &Environment) -> bool {
    environment.runs_code_at_start().is_ok_and(|runs| !runs)
}

impl Inner {
    fn shelves(&self) -> MutexGuard<'_, Shelves<Slot, Environment>> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> MutexGuard<'_, Option<(SandboxSpec, Instant)>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, spec: &SandboxSpec, environment: Environment) {
        let now = Instant::now();
        let arrange = |environment: &Environment| {
            let modules: Arc<[String]> = environment.modules_among(&self.preload).into();
            let spec = preload::with_modules(spec, &modules);
            poolable(environment).then_some(Start { spec, modules })
        };
        let holds_nothing = {
            let mut shelves = self.shelves();
            shelves.keep(spec, environment.at_rest(), now, arrange);
            shelves.hold_nothing()
        };
        // Where interpreters wait, a start that a call waits for is rare, and the work for it would be in vain.
        if holds_nothing {
            *self.next() = Some((SandboxSpec { files: Vec::new(), ..spec.clone() }, now));
        }
    }

    /// Has the sandbox get ahead of the next call, or gives that up where none comes.
    async fn get_ahead(&self, now: Instant) {
        let gone = self.next().take_if(|(_, since)| now >= *since + shelves::IDLE || self.scarcity.at(now));
        if gone.is_some() {
            self.sandbox.fall_back();
        }
        if !self.runs.processor_is_free(now) {
            return;
        }
        let next = self.next().as_ref().map(|(spec, _)| spec.clone());
        if let Some(spec) = next {
            self.sandbox.get_ahead(&spec).await;
        }
    }

    /// Empties what is idle and fills what is asked for, for as long as the pool lives.
    async fn tend(&self) {
        loop {
            sleep(AFTER_AN_ANSWER).await;
            let now = Instant::now();
            self.shelves().drain(now);
            while self.runs.processor_is_free(Instant::now()) && self.start_one().await {}
            self.get_ahead(Instant::now()).await;
            let now = Instant::now();
            let idle = self.next().as_ref().map(|(_, since)| *since + shelves::IDLE);
            let changes = [self.runs.next_change(now), self.shelves().next_change(now), idle];
            let next = changes.into_iter().flatten().min();
            let later = async {
                match next {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.wake.notified() => {}
                () = later => {}
            }
        }
    }

    /// Starts one sandbox where one is missing. Tells whether it is worth looking for another one.
    async fn start_one(&self) -> bool {
        if self.scarcity.at(Instant::now()) {
            self.shelves().clear();
            return false;
        }
        let Some((place, start)) = self.shelves().next_missing(Instant::now()) else { return false };
        let Start { spec, modules } = start;
        let starting = self.sandbox.start_waiting(&spec, Path::new(SCRIPT));
        match timeout(STARTING_TAKES, starting).await {
            Ok(Ok(waiting)) => {
                self.shelves().put(place, Slot { waiting, imported: modules });
                return true;
            }
            Ok(Err(error)) => tracing::debug!(%error, "no sandbox waits"),
            Err(_) => tracing::warn!(
                "no sandbox waits: an interpreter did not ask for its script within {} s (--preload: {})",
                STARTING_TAKES.as_secs(),
                modules.join(", ")
            ),
        }
        self.shelves().failed(place, Instant::now());
        true
    }
}
