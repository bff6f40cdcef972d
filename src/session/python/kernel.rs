//! One Python session: a sandbox with the driver in it, its files, and its packages. Where the whole sandbox is lost,
//! the next call starts another one with the same files and packages.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard};
use tokio::time::Instant;

use super::by_driver::SharedDriver;
use super::driver::{Driver, end_of};
use super::files::Files;
use super::{START, reply};
use crate::environment::packages::PackageFolder;
use crate::environment::{Environment, EnvironmentRequest};
use crate::execution::{Engine, ExecutionError, FailureKind, ProgressSink, missing};
use crate::sandbox::{BoxFuture, Tier};
use crate::script::Requirement;
use crate::session::channel::ChannelError;
use crate::session::error::SessionError;
use crate::session::interpreter::{Kernel, KernelUsage, Stop};
use crate::session::protocol::{Answer, Setup};
use crate::session::report::{CellEnd, CellReport, Installed};
use crate::workspace::Workspace;

/// Time for a sandbox that takes the place of a lost one.
const RESTART_TAKES: Duration = Duration::from_secs(30);
/// Time for the interpreter to take packages up that are there.
const TAKE_UP_TAKES: Duration = Duration::from_secs(30);

/// Said when a lost sandbox was replaced.
const RESTARTED: &str =
    "a new interpreter was started: variables and imports are lost, files and packages are kept";

/// The same, where the files went with it.
const EMPTIED: &str = "a new sandbox was started: variables, imports and files are lost, packages are kept";

/// Said with every result where there is no sandbox.
const UNCONFINED: &str = "unconfined: this runs on the host without any isolation";

/// The session.
pub struct PythonKernel {
    engine: Arc<Engine>,
    setup: Setup,
    environment: Environment,
    folder: PackageFolder,
    /// The environment of the packages that were installed last, as a folder that is visible inside.
    root: Option<PathBuf>,
    /// Its key, or that of the environment without packages.
    key: Arc<str>,
    packages: Vec<Requirement>,
    version: String,
    files: Files,
    driver: SharedDriver,
}

impl PythonKernel {
    /// Starts a session without packages.
    pub async fn start(engine: Arc<Engine>, setup: Setup, deadline: Instant) -> Result<Self, SessionError> {
        let (request, quiet): (_, ProgressSink) = (EnvironmentRequest::default(), Arc::new(|_| {}));
        let environment = engine.session_environment(&request, deadline, &quiet).await?;
        let folder = engine.environments().package_folder().await.map_err(|error| storage(&error))?;
        let (driver, version, files) = launch(&engine, &setup, &environment, &folder, deadline).await?;
        Ok(Self {
            engine,
            setup,
            key: Arc::clone(&environment.key),
            environment,
            folder,
            root: None,
            packages: Vec::new(),
            version,
            files,
            driver: Arc::new(Mutex::new(Some(driver))),
        })
    }

    /// The driver; a new one where it was lost, and then a note that says so.
    async fn driver(&mut self) -> Result<(MappedMutexGuard<'_, Driver>, Option<&'static str>), SessionError> {
        let mut note = None;
        let mut shared = self.driver.lock().await;
        if shared.is_none() {
            let deadline = Instant::now() + RESTART_TAKES;
            let (mut driver, version, files) =
                launch(&self.engine, &self.setup, &self.environment, &self.folder, deadline).await?;
            note = Some(if files.take_over(&self.files).await? { RESTARTED } else { EMPTIED });
            if let Some(root) = &self.root {
                let taken = driver.install(&root.to_string_lossy(), deadline).await;
                taken.map_err(|error| SessionError::Broken(error.to_string()))?;
            }
            (self.version, self.files) = (version, files);
            *shared = Some(driver);
        }
        let driver = MutexGuard::try_map(shared, Option::as_mut).map_err(|_| SessionError::Closing)?;
        Ok((driver, note))
    }

    /// The driver did not do what it should: its sandbox is ended.
    async fn lose(&mut self, error: &ChannelError) -> SessionError {
        let Some(driver) = self.driver.lock().await.take() else { return SessionError::Closing };
        SessionError::Broken(driver.end(Some(error.to_string())).await)
    }

    async fn run_cell(
        &mut self,
        code: &str,
        stop: Stop<'_>,
        progress: &ProgressSink,
    ) -> Result<CellReport, SessionError> {
        let (mut driver, restarted) = self.driver().await?;
        let started = Instant::now();
        let told = driver.run(code, stop, progress).await;
        drop(driver);
        self.setup.cells += 1;
        let duration = started.elapsed();
        let report = told.and_then(|(answer, stopped)| {
            let end = end_of(&answer, stopped, duration);
            let lost_before = answer.lost.filter(|_| answer.cell.is_some()).map(reply::lost);
            let mut report = reply::cell(answer, &self.setup, duration)?;
            report.end = end;
            report.notes.extend(
                lost_before
                    .map(|how| format!("between the calls {how}: variables were lost before this code ran")),
            );
            Ok(report)
        });
        match report {
            Ok(mut report) => {
                report.environment = Arc::clone(&self.key);
                report.notes.extend(restarted.map(str::to_owned));
                let error = report.error.as_ref();
                report.notes.extend(error.and_then(|error| missing::in_cell(&error.name, &error.value)));
                if self.engine.sandbox().facts().tier == Ok(Tier::None) {
                    report.notes.insert(0, UNCONFINED.to_owned());
                }
                if let CellEnd::Lost { how, .. } = &mut report.end {
                    *how = format!("{how}; variables and imports are lost, files and packages are kept");
                }
                Ok(report)
            }
            Err(error) => Err(self.lose(&error).await),
        }
    }

    async fn install_now(
        &mut self,
        packages: Vec<Requirement>,
        stop: Stop<'_>,
        progress: ProgressSink,
    ) -> Result<Installed, SessionError> {
        let mut all = self.packages.clone();
        all.retain(|known| !packages.iter().any(|new| new.same_slot(known)));
        all.extend(packages);
        let request = EnvironmentRequest {
            python: Some(self.environment.interpreter.python_version()),
            requirements: all.clone(),
            ..EnvironmentRequest::default()
        };
        let prepared = self.engine.session_environment(&request, stop.deadline, &progress);
        let environment = tokio::select! {
            prepared = prepared => prepared?,
            () = stop.abandoned => return Err(SessionError::Cancelled),
        };
        if environment.interpreter.executable != self.environment.interpreter.executable {
            let message =
                "another interpreter would be used than the one that runs; make a new sandbox".to_owned();
            return Err(failure(FailureKind::Interpreter, message).into());
        }
        let root = self.folder.add(&environment).await.map_err(|error| storage(&error))?;
        let inside = root.to_string_lossy().into_owned();
        let (mut driver, restarted) = self.driver().await?;
        let taken = driver.install(&inside, Instant::now() + TAKE_UP_TAKES).await;
        drop(driver);
        let answer = match taken {
            Ok(answer) => answer,
            Err(error) => return Err(self.lose(&error).await),
        };
        (self.root, self.packages) = (Some(root), all);
        self.key = Arc::clone(&environment.key);
        let mut installed = taken_up(answer)?;
        installed.environment = Arc::clone(&environment.key);
        installed.notes.extend(environment.notes.iter().cloned());
        installed.notes.extend(restarted.map(str::to_owned));
        Ok(installed)
    }
}

/// What the interpreter told of its new packages.
fn taken_up(answer: Answer) -> Result<Installed, SessionError> {
    if let Some(packages) = answer.installed {
        return Ok(Installed { packages, conflicts: answer.conflicts, ..Installed::default() });
    }
    let how = answer.lost.map_or_else(|| "the interpreter did not answer".to_owned(), reply::lost);
    let message = format!("the packages are installed, but {how} while taking them up; variables are lost");
    Err(failure(FailureKind::Installation, message).into())
}

async fn launch(
    engine: &Engine,
    setup: &Setup,
    environment: &Environment,
    folder: &PackageFolder,
    deadline: Instant,
) -> Result<(Driver, String, Files), ExecutionError> {
    let args = vec!["-c".to_owned(), START.to_owned()];
    let spec = engine.session_spec(environment, args, folder.mount());
    let mut running = engine.start_session(&spec, deadline).await?;
    let files = Files::of(&mut running);
    let (driver, version) = Driver::open(running, setup, deadline).await?;
    Ok((driver, version, files))
}

fn failure(kind: FailureKind, message: String) -> ExecutionError {
    ExecutionError { kind, message, detail: String::new(), notes: Vec::new() }
}

fn storage(error: &crate::environment::EnvironmentError) -> SessionError {
    failure(FailureKind::Storage, error.to_string()).into()
}

impl Kernel for PythonKernel {
    fn run<'a>(
        &'a mut self,
        code: &'a str,
        stop: Stop<'a>,
        progress: ProgressSink,
    ) -> BoxFuture<'a, Result<CellReport, SessionError>> {
        Box::pin(async move { self.run_cell(code, stop, &progress).await })
    }

    fn install<'a>(
        &'a mut self,
        packages: Vec<Requirement>,
        stop: Stop<'a>,
        progress: ProgressSink,
    ) -> BoxFuture<'a, Result<Installed, SessionError>> {
        Box::pin(self.install_now(packages, stop, progress))
    }

    fn workspace(&self) -> Arc<dyn Workspace> {
        self.files.workspace(&self.driver)
    }

    fn usage(&mut self) -> BoxFuture<'_, Option<KernelUsage>> {
        Box::pin(async move {
            let told = self.driver.lock().await.as_mut()?.usage().await;
            match told {
                Ok(usage) => usage
                    .memory
                    .zip(usage.processes)
                    .map(|(memory, processes)| KernelUsage { memory, processes }),
                Err(error) => {
                    tracing::warn!("a sandbox was ended: {}", self.lose(&error).await);
                    None
                }
            }
        })
    }

    fn version(&self) -> String {
        self.version.clone()
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let driver = self.driver.lock().await.take();
            if let Some(driver) = driver {
                driver.close().await;
            }
            self.folder.remove().await;
        })
    }
}
