//! The interpreter of this machine: Python in a sandbox, with our driver in it.
//!
//! `start.py` reads the driver's parts from the channel; `supervisor.py` is then the sandbox's main process and
//! `worker.py` runs the cells in a child of it, showing values with `rich.py`.

mod by_driver;
mod driver;
mod files;
mod kernel;
mod reply;
#[cfg(all(test, unix))]
mod testing;
#[cfg(all(test, unix))]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::error::SessionError;
use super::interpreter::{Interpreter, Kernel};
use super::protocol::Setup;
use crate::execution::{Engine, ExecutionError};
use crate::sandbox::BoxFuture;
use kernel::PythonKernel;

/// Name of this interpreter.
pub const NAME: &str = "python";

/// The driver's parts by name, in the order in which they are loaded.
const DRIVER: [(&str, &str); 4] = [
    ("files", include_str!("../driver/files.py")),
    ("rich", include_str!("../driver/rich.py")),
    ("supervisor", include_str!("../driver/supervisor.py")),
    ("worker", include_str!("../driver/worker.py")),
];

/// What is started: reads the driver from the channel.
const START: &str = include_str!("../driver/start.py");

/// Time for starting a sandbox in advance.
const SPARE_TAKES: Duration = Duration::from_mins(1);

/// Building the next one waits this long, so that the answer of the call that took the last one goes out first.
const SPARE_AFTER: Duration = Duration::from_millis(20);

/// Where the engine comes from: it may still be coming up when the first call arrives.
pub trait EngineSource: Send + Sync {
    /// The engine, or why there is none.
    fn engine(&self) -> BoxFuture<'_, Result<Arc<Engine>, ExecutionError>>;
}

/// Starts interpreters, and keeps one started in advance once the first was asked for.
pub struct LocalPython {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Arc<dyn EngineSource>,
    max_image_bytes: usize,
    spare: Mutex<Spare>,
    /// Told when one is no longer being started.
    settled: Notify,
}

/// A sandbox that was started in advance.
enum Spare {
    /// None is wanted any more.
    Closed,
    /// None is there.
    Empty,
    /// One is being started.
    Starting,
    /// One waits.
    Ready(Box<PythonKernel>),
}

impl LocalPython {
    /// Starts nothing yet.
    pub fn new(engine: Arc<dyn EngineSource>, max_image_bytes: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                engine,
                max_image_bytes,
                spare: Mutex::new(Spare::Empty),
                settled: Notify::new(),
            }),
        }
    }
}

impl Shared {
    fn setup(&self, engine: &Engine) -> Setup {
        let mut setup = Setup::new(engine.settings().max_output_bytes, self.max_image_bytes);
        setup.driver = DRIVER.into();
        setup
    }

    async fn start(&self, deadline: Instant) -> Result<Box<PythonKernel>, SessionError> {
        let engine = self.engine.engine().await?;
        let setup = self.setup(&engine);
        Ok(Box::new(PythonKernel::start(engine, setup, deadline).await?))
    }

    fn spare(&self) -> std::sync::MutexGuard<'_, Spare> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one that waits. One that is being started is waited for: that is sooner than a second start beside it.
    async fn take(&self, deadline: Instant) -> Option<Box<PythonKernel>> {
        loop {
            let settled = self.settled.notified();
            {
                let mut spare = self.spare();
                match std::mem::replace(&mut *spare, Spare::Empty) {
                    Spare::Ready(kernel) => return Some(kernel),
                    Spare::Empty => return None,
                    other => *spare = other,
                }
                if matches!(*spare, Spare::Closed) {
                    return None;
                }
            }
            timeout_at(deadline, settled).await.ok()?;
        }
    }

    /// Starts the next one, unless that is being done already.
    fn refill(self: &Arc<Self>) {
        let mut spare = self.spare();
        if !matches!(*spare, Spare::Empty) {
            return;
        }
        *spare = Spare::Starting;
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(SPARE_AFTER).await;
            let started = shared.start(Instant::now() + SPARE_TAKES).await;
            let mut spare = shared.spare();
            if matches!(*spare, Spare::Starting) {
                *spare = started.map_or(Spare::Empty, Spare::Ready);
            }
            drop(spare);
            shared.settled.notify_waiters();
        });
    }
}

impl Interpreter for LocalPython {
    fn name(&self) -> &'static str {
        NAME
    }

    fn start(&self, deadline: Instant) -> BoxFuture<'_, Result<Box<dyn Kernel>, SessionError>> {
        Box::pin(async move {
            let kernel = match self.shared.take(deadline).await {
                Some(kernel) => kernel,
                None => self.shared.start(deadline).await?,
            };
            self.shared.refill();
            Ok(kernel as Box<dyn Kernel>)
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if let Some(kernel) = self.shared.close() {
                kernel.close().await;
            }
        })
    }
}

impl Shared {
    /// Wants no spare one any more; gives the one that waits.
    fn close(&self) -> Option<Box<PythonKernel>> {
        match std::mem::replace(&mut *self.spare(), Spare::Closed) {
            Spare::Ready(kernel) => Some(kernel),
            _ => None,
        }
    }
}

impl Drop for LocalPython {
    fn drop(&mut self) {
        // One that is still being started finds this and is dropped.
        drop(self.shared.close());
    }
}
