//! The interpreter of this machine: Python in a sandbox, with our driver in it.
//!
//! `start.py` reads the driver's parts from the channel; `supervisor.py` is then the sandbox's main process and
//! `worker.py` runs the cells in a child of it, showing values with `rich.py`.

mod driver;
mod files;
mod kernel;
mod reply;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::error::SessionError;
use super::interpreter::{Interpreter, Kernel};
use super::protocol::Setup;
use crate::execution::{Engine, ExecutionError};
use crate::sandbox::BoxFuture;
use kernel::PythonKernel;

/// Name of this interpreter.
pub const NAME: &str = "python";

/// The driver's parts by name, in the order in which they are loaded.
const DRIVER: [(&str, &str); 3] = [
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
        Self { shared: Arc::new(Shared { engine, max_image_bytes, spare: Mutex::new(Spare::Empty) }) }
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

    fn take(&self) -> Option<Box<PythonKernel>> {
        let mut spare = self.spare();
        match std::mem::replace(&mut *spare, Spare::Empty) {
            Spare::Ready(kernel) => Some(kernel),
            other => {
                *spare = other;
                None
            }
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
        });
    }
}

impl Interpreter for LocalPython {
    fn name(&self) -> &'static str {
        NAME
    }

    fn start(&self, deadline: Instant) -> BoxFuture<'_, Result<Box<dyn Kernel>, SessionError>> {
        Box::pin(async move {
            let kernel = match self.shared.take() {
                Some(kernel) => kernel,
                None => self.shared.start(deadline).await?,
            };
            self.shared.refill();
            Ok(kernel as Box<dyn Kernel>)
        })
    }
}

impl Drop for LocalPython {
    fn drop(&mut self) {
        // One that is still being started finds this and is dropped.
        *self.shared.spare() = Spare::Closed;
    }
}
