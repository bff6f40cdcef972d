//! All sessions of one client: their names, their number, and the way to each.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::SessionSettings;
use super::actor::{self, Job, QUEUE, SharedInfo, Using};
use super::error::{Ended, SessionError};
use super::interpreter::{Interpreter, Kernel, KernelUsage, Stop};
use super::name::SessionId;
use super::report::{CellReport, Installed};
use super::table::{Row, Table, Unfinished};
use crate::execution::ProgressSink;
use crate::execution::output::{self, OutputFile};
use crate::sandbox::BoxFuture;
use crate::script::Requirement;
use crate::workspace::{FileError, Tree, Workspace};

/// Time for starting a sandbox.
const START_TAKES: Duration = Duration::from_mins(1);

/// All sessions of one client. Cheap to clone.
#[derive(Clone)]
pub struct Sessions {
    interpreter: Arc<dyn Interpreter>,
    settings: SessionSettings,
    table: Table,
}

/// A session that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its name.
    pub id: SessionId,
    /// Which interpreter it has.
    pub interpreter: &'static str,
    /// The full version of the language.
    pub version: String,
}

/// The state of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionStatus {
    /// Its name.
    pub id: SessionId,
    /// Which interpreter it has.
    pub interpreter: &'static str,
    /// Since it was made.
    pub age: Duration,
    /// Since it was last used.
    pub idle: Duration,
    /// Unused for so long, it is closed.
    pub idle_limit: Duration,
    /// Whether a call is being worked on. What follows cannot be told meanwhile.
    pub busy: bool,
    /// What its processes use.
    pub usage: Option<KernelUsage>,
    /// Its files.
    pub files: Option<Tree>,
    /// Cells that were run.
    pub cells: u64,
    /// Installed packages with their versions.
    pub packages: Vec<(String, String)>,
}

impl Sessions {
    /// No session yet.
    pub fn new(interpreter: Arc<dyn Interpreter>, settings: SessionSettings) -> Self {
        Self { interpreter, settings, table: Table::default() }
    }

    /// Name of the interpreter that sessions get.
    pub fn interpreter(&self) -> &'static str {
        self.interpreter.name()
    }

    /// Makes a session under this name, or under one of its own. Dropping the future ends what was started.
    pub async fn create(&self, id: Option<SessionId>) -> Result<Summary, SessionError> {
        let (id, made, started) = self.begin(id)?;
        let mut unfinished = Unfinished { table: &self.table, id: &id, made, ready: false };
        let version = started.await.map_err(|_| SessionError::Closing)??;
        unfinished.ready = true;
        drop(unfinished);
        Ok(Summary { id, interpreter: self.interpreter.name(), version })
    }

    /// Reserves the name and starts the session's task.
    #[allow(clippy::type_complexity, reason = "used once, just above")]
    fn begin(
        &self,
        id: Option<SessionId>,
    ) -> Result<(SessionId, u64, oneshot::Receiver<Result<String, SessionError>>), SessionError> {
        let mut rows = self.table.rows();
        if let Some(id) = id.as_ref().filter(|id| rows.open.contains_key(id)) {
            return Err(SessionError::Exists(id.to_string()));
        }
        if rows.open.len() >= self.settings.max_sandboxes {
            return Err(SessionError::TooMany { limit: self.settings.max_sandboxes });
        }
        let id = id.unwrap_or_else(|| rows.free_name());
        rows.made += 1;
        let made = rows.made;
        let (jobs, queue) = mpsc::channel(QUEUE);
        let (info, closing) = (SharedInfo::new(), CancellationToken::new());
        let (tell, started) = oneshot::channel();
        let task = self.live(id.clone(), made, queue, info.clone(), closing.clone(), tell);
        let row = Row { made, jobs, info, closing, task: Some(tokio::spawn(task)) };
        rows.ended.retain(|(ended, _)| *ended != id);
        rows.open.insert(id.clone(), row);
        Ok((id, made, started))
    }

    /// A session from its start to its end.
    fn live(
        &self,
        id: SessionId,
        made: u64,
        queue: mpsc::Receiver<Job>,
        info: SharedInfo,
        closing: CancellationToken,
        tell: oneshot::Sender<Result<String, SessionError>>,
    ) -> impl Future<Output = ()> + use<> {
        let (interpreter, table) = (Arc::clone(&self.interpreter), self.table.clone());
        let idle_limit = self.settings.idle_limit;
        async move {
            let started = tokio::select! {
                biased;
                () = closing.cancelled() => Err(SessionError::Closing),
                started = interpreter.start(Instant::now() + START_TAKES) => started,
            };
            match started {
                Ok(kernel) => {
                    let _ = tell.send(Ok(kernel.version()));
                    let how = actor::work(kernel, queue, info, idle_limit, closing).await;
                    table.end(&id, Some(made), how);
                }
                Err(error) => {
                    table.take(&id, Some(made));
                    let _ = tell.send(Err(error));
                }
            }
        }
    }

    /// Ends a session; every process of it is gone when this returns. False where it had ended before.
    pub async fn close(&self, id: &SessionId) -> Result<bool, SessionError> {
        let Some(mut row) = self.table.end(id, None, Ended::Closed) else {
            return match self.table.rows().missing(id) {
                SessionError::Ended { .. } => Ok(false),
                error => Err(error),
            };
        };
        if let Some(task) = row.task.take() {
            let _ = task.await;
        }
        Ok(true)
    }

    /// Ends all of them.
    pub async fn close_all(&self) {
        let ids: Vec<SessionId> = self.all();
        for id in &ids {
            if let Some(row) = self.table.rows().open.get(id) {
                row.closing.cancel();
            }
        }
        for id in ids {
            let _ = self.close(&id).await;
        }
        self.interpreter.close().await;
    }

    /// The names of all sessions.
    pub fn all(&self) -> Vec<SessionId> {
        self.table.rows().open.keys().cloned().collect()
    }

    /// Runs one cell after all calls that came before. Dropping the future interrupts it; its state is kept where it
    /// yields to that.
    pub async fn run(
        &self,
        id: &SessionId,
        code: String,
        timeout: Duration,
        progress: ProgressSink,
    ) -> Result<CellReport, SessionError> {
        let info = self.info(id)?;
        let report = self
            .ask(id, move |kernel, abandoned| {
                Box::pin(async move {
                    let stop = Stop { deadline: Instant::now() + timeout, abandoned };
                    kernel.run(&code, stop, progress).await
                })
            })
            .await;
        info.lock().cells += 1;
        report
    }

    /// Installs packages beside those that are there.
    pub async fn install(
        &self,
        id: &SessionId,
        packages: Vec<Requirement>,
        timeout: Duration,
        progress: ProgressSink,
    ) -> Result<Installed, SessionError> {
        let info = self.info(id)?;
        let installed = self
            .ask(id, move |kernel, abandoned| {
                let stop = Stop { deadline: Instant::now() + timeout, abandoned };
                kernel.install(packages, stop, progress)
            })
            .await?;
        info.lock().packages.extend(installed.packages.iter().cloned());
        Ok(installed)
    }

    /// A session for one cell, which is closed whatever happens. Gives what the cell left in `output/` along.
    pub async fn run_once(
        &self,
        code: String,
        timeout: Duration,
        progress: ProgressSink,
    ) -> Result<(CellReport, Vec<OutputFile>), SessionError> {
        let id = self.create(None).await?.id;
        let made = self.table.rows().open.get(&id).map_or(0, |row| row.made);
        let unfinished = Unfinished { table: &self.table, id: &id, made, ready: false };
        let mut report = self.run(&id, code, timeout, progress).await;
        let collect = |files: Arc<dyn Workspace>| -> BoxFuture<'static, _> {
            Box::pin(async move { Ok(output::collect(files.as_ref()).await) })
        };
        // Where the whole sandbox was lost there is nothing to collect.
        let left = self.files(&id, collect).await.unwrap_or_default();
        self.close(&id).await?;
        drop(unfinished);
        if let Ok(report) = &mut report {
            report.notes.extend(left.note());
        }
        Ok((report?, left.output))
    }

    /// Does something with a session's files, after all calls that came before.
    pub async fn files<T: Send + 'static>(
        &self,
        id: &SessionId,
        act: impl FnOnce(Arc<dyn Workspace>) -> BoxFuture<'static, Result<T, FileError>> + Send + 'static,
    ) -> Result<T, SessionError> {
        self.ask(id, move |kernel, _| {
            let done = act(kernel.workspace());
            Box::pin(async move { Ok(done.await?) })
        })
        .await
    }

    /// What is known of a session. Never waits for a call that is being worked on, and does not count as use.
    pub async fn status(&self, id: &SessionId) -> Result<SessionStatus, SessionError> {
        let info = self.info(id)?;
        let busy = info.lock().uses > 0;
        let (usage, files) = if busy { (None, None) } else { self.measured(id).await? };
        let info = info.lock();
        Ok(SessionStatus {
            id: id.clone(),
            interpreter: self.interpreter.name(),
            age: info.created.elapsed(),
            idle: if info.uses > 0 { Duration::ZERO } else { info.last_used.elapsed() },
            idle_limit: self.settings.idle_limit,
            busy,
            usage,
            files,
            cells: info.cells,
            packages: info.packages.clone().into_iter().collect(),
        })
    }

    async fn measured(&self, id: &SessionId) -> Result<(Option<KernelUsage>, Option<Tree>), SessionError> {
        self.enqueue(id, None, |kernel, _| {
            Box::pin(async move {
                let usage = kernel.usage().await;
                Ok((usage, kernel.workspace().files(0).await.ok()))
            })
        })
        .await
    }

    /// The files of a session, or `None` while it is busy. Does not count as use.
    pub async fn tree(&self, id: &SessionId, most: usize) -> Result<Option<Tree>, SessionError> {
        if self.info(id)?.lock().uses > 0 {
            return Ok(None);
        }
        let tree = self.enqueue(id, None, move |kernel, _| {
            let workspace = kernel.workspace();
            Box::pin(async move { Ok(workspace.files(most).await?) })
        });
        tree.await.map(Some)
    }

    fn info(&self, id: &SessionId) -> Result<SharedInfo, SessionError> {
        let rows = self.table.rows();
        rows.open.get(id).map(|row| row.info.clone()).ok_or_else(|| rows.missing(id))
    }

    /// Has the session's kernel do something for a call, and waits for what comes of it. The job is told when nobody
    /// waits any more.
    async fn ask<T: Send + 'static>(
        &self,
        id: &SessionId,
        act: impl for<'a> FnOnce(&'a mut dyn Kernel, BoxFuture<'a, ()>) -> BoxFuture<'a, Result<T, SessionError>>
        + Send
        + 'static,
    ) -> Result<T, SessionError> {
        let using = self.info(id)?.using();
        self.enqueue(id, Some(using), act).await
    }

    /// The same; whoever only looks is not `using` the session, so neither makes it busy nor keeps it.
    async fn enqueue<T: Send + 'static>(
        &self,
        id: &SessionId,
        using: Option<Using>,
        act: impl for<'a> FnOnce(&'a mut dyn Kernel, BoxFuture<'a, ()>) -> BoxFuture<'a, Result<T, SessionError>>
        + Send
        + 'static,
    ) -> Result<T, SessionError> {
        let (mut tell, told) = oneshot::channel();
        let job: Job = Box::new(move |kernel| {
            Box::pin(async move {
                if tell.is_closed() {
                    return;
                }
                let done = act(kernel, Box::pin(tell.closed())).await;
                // The use is over before anybody hears of it: whoever then asks for the status finds it so.
                drop(using);
                let _ = tell.send(done);
            })
        });
        let (jobs, info) = {
            let rows = self.table.rows();
            let row = rows.open.get(id).ok_or_else(|| rows.missing(id))?;
            (row.jobs.clone(), row.info.clone())
        };
        let gone = || match info.lock().ended {
            Some(how @ Ended::Idle(_)) => SessionError::Ended { id: id.to_string(), how },
            _ => SessionError::Closing,
        };
        jobs.try_send(job).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => SessionError::Busy { waiting: QUEUE },
            mpsc::error::TrySendError::Closed(_) => gone(),
        })?;
        drop(jobs);
        told.await.map_err(|_| gone())?
    }
}
