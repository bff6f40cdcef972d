//! From a request to a report: script, environment, sandbox, run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::{Instrument as _, debug_span};

use super::evidence;
use super::failure;
use super::figures;
use super::overview::Overview;
use super::pool::{Over, Pool};
use super::queue::Queue;
use super::report::{ExecutionError, ExecutionReport};
use super::request::{ExecutionRequest, Progress, ProgressSink};
use super::run::{self, Finished, RunError};
use super::user_mount::UserMount;
use super::validation::Validation;
use super::{Execute, check, missing, warm};
use crate::environment::{Environment, EnvironmentRequest, Environments, Phase};
use crate::sandbox::spec::{Command, HOME_DIR, InlineFile, Network, Role, SandboxSpec, USER_NAME, WORK_DIR};
use crate::sandbox::{BoxFuture, ExitStatus, Running, Sandbox, StartError, Tier, WaitError};
use crate::script::{self, Analysis};
use crate::settings::Settings;

/// Name of the script inside, below the work directory.
pub const SCRIPT: &str = "script.py";

/// Longest time for getting ready for the first call.
const EXPECTING_TAKES: Duration = Duration::from_mins(1);

/// Runs scripts. Shared by everything that serves.
pub struct Engine {
    pub(super) settings: Settings,
    pub(super) sandbox: Arc<dyn Sandbox>,
    pub(super) environments: Environments,
    pub(super) warming: warm::Warming,
    pool: Pool,
    places: Semaphore,
    queue: Queue,
}

/// A run that only has to be started.
#[derive(Debug)]
pub struct Prepared {
    /// What the sandbox is to be.
    pub spec: SandboxSpec,
    /// The environment, in use as long as this lives.
    pub environment: Environment,
    /// Things the caller should know.
    pub notes: Vec<String>,
}

impl Engine {
    /// Puts the rooms together. Starts nothing.
    pub fn new(settings: Settings, sandbox: Arc<dyn Sandbox>, environments: Environments) -> Self {
        let (places, queue) = (Semaphore::new(settings.max_concurrent), Queue::new(settings.max_concurrent));
        let warming = warm::Warming::new(settings.warm_cache);
        let pool = Pool::new(settings.pool_size, settings.preload.clone(), Arc::clone(&sandbox));
        Self { settings, sandbox, environments, warming, pool, places, queue }
    }

    /// The environments.
    pub fn environments(&self) -> &Environments {
        &self.environments
    }

    /// The sandbox backend.
    pub fn sandbox(&self) -> &Arc<dyn Sandbox> {
        &self.sandbox
    }

    /// Forgets an environment whose files are gone.
    pub async fn forget(&self, environment: Environment) {
        self.environments.forget(environment).await;
    }

    /// Makes everything ready for a run: checks the script, finds the interpreter, builds the environment.
    pub async fn prepare(
        &self,
        request: &ExecutionRequest,
        deadline: Instant,
        progress: &ProgressSink,
    ) -> Result<Prepared, ExecutionError> {
        self.usable()?;
        let analysis = script::read(&request.script, &request.dependencies);
        if !analysis.is_valid() {
            return Err(failure::invalid_script(&analysis));
        }
        let mut notes = notes_of(&analysis);
        let environment = self.environment(&analysis, request, deadline, progress).await;
        let environment = environment.map_err(|error| failure::environment(&error, &notes))?;
        notes.extend(environment.notes.iter().cloned());
        let spec = self.spec(&environment, request.script.as_bytes());
        Ok(Prepared { spec, environment, notes })
    }

    pub(super) fn usable(&self) -> Result<(), ExecutionError> {
        let facts = self.sandbox.facts();
        facts.tier.as_ref().map(drop).map_err(failure::refused)
    }

    async fn environment(
        &self,
        analysis: &Analysis,
        request: &ExecutionRequest,
        deadline: Instant,
        progress: &ProgressSink,
    ) -> Result<Environment, crate::environment::EnvironmentError> {
        let wanted = environment_request(analysis, request);
        let progress = Arc::clone(progress);
        let phases = Arc::new(move |phase: Phase| {
            progress(Progress::Preparing { what: phase.what, done: phase.done, total: phase.total });
        });
        self.environments.prepare(&wanted, deadline, phases).await
    }

    /// What a script's sandbox may see and use.
    pub(super) fn spec(&self, environment: &Environment, script: &[u8]) -> SandboxSpec {
        let mut mounts = environment.mounts.clone();
        let mut env = base_environment();
        if self.settings.network != Network::None {
            env.extend(self.environments.connection().for_scripts());
            mounts.extend(self.environments.connection().mounts().iter().cloned());
        }
        env.extend(environment.env.clone());
        for name in &self.settings.pass_env {
            if let Ok(value) = std::env::var(name) {
                env.insert(name.clone(), value);
            }
        }
        mounts.extend(self.settings.mounts.iter().map(UserMount::mount));
        mounts.dedup();
        SandboxSpec {
            role: Role::Run,
            command: Command {
                program: environment.python.clone(),
                args: vec![format!("{WORK_DIR}/{SCRIPT}")],
                env,
                cwd: WORK_DIR.into(),
            },
            mounts,
            files: vec![InlineFile { path: SCRIPT.into(), content: script.into() }],
            network: self.settings.network,
            named_servers: Vec::new(),
            limits: self.settings.limits,
            channel: false,
        }
    }

    async fn execute_now(
        &self,
        request: ExecutionRequest,
        progress: ProgressSink,
    ) -> Result<ExecutionReport, ExecutionError> {
        let arrived = Instant::now();
        let _place = self.place(&progress).instrument(debug_span!("queue")).await?;
        let deadline = Instant::now() + request.timeout;
        let _run = self.pool.begin_run();
        let prepare = self.prepare(&request, deadline, &progress);
        let mut prepared = prepare.instrument(debug_span!("prepare")).await?;
        let mut told = prepared.notes.len();
        let mut finished = self.run_once(&mut prepared, &request.script, deadline, &progress).await;
        if let Err(RunError::Start(StartError::ProgramMissing(path))) = &finished {
            // Somebody has cleared the store since the environment was made: once more, from the beginning.
            tracing::warn!("the environment has gone ({}); it is made again", path.display());
            self.environments.forget(prepared.environment).await;
            prepared = self.prepare(&request, deadline, &progress).await?;
            told = prepared.notes.len();
            finished = self.run_once(&mut prepared, &request.script, deadline, &progress).await;
        }
        if let Err(RunError::Wait(WaitError::NotBegun(reason))) = &finished {
            tracing::info!(
                "a waiting sandbox was lost with the script on its way ({reason}): one that is built now runs it"
            );
            prepared.notes.truncate(told);
            finished = self.run_cold(&prepared, deadline, &progress).await;
        }
        let finished = finished.map_err(|error| failure::run(error, request.timeout, &prepared.notes))?;
        let Prepared { spec, environment, mut notes } = prepared;
        let ended_well = finished.outcome.status == ExitStatus::Exited(0);
        let shown = self.settings.mounts.iter().map(|mount| mount.name.as_str());
        notes.extend(figures::lost(&request.script, ended_well, &finished.left, shown));
        notes.extend(finished.left.note());
        let (report, remains) = self.report(finished, &environment, notes, arrived.elapsed());
        self.pool.keep_later(Over { spec, environment, remains });
        Ok(report)
    }

    async fn run_once(
        &self,
        prepared: &mut Prepared,
        script: &str,
        deadline: Instant,
        progress: &ProgressSink,
    ) -> Result<Finished, RunError> {
        let start = self.start(prepared, script, deadline);
        let running = start.instrument(debug_span!("start")).await?;
        self.attend(running, deadline, progress).await
    }

    /// In a sandbox that is built for it.
    async fn run_cold(
        &self,
        prepared: &Prepared,
        deadline: Instant,
        progress: &ProgressSink,
    ) -> Result<Finished, RunError> {
        let start = run::start(self.sandbox.as_ref(), &prepared.spec, deadline);
        let running = start.instrument(debug_span!("start")).await?;
        self.attend(running, deadline, progress).await
    }

    async fn attend(
        &self,
        running: Running,
        deadline: Instant,
        progress: &ProgressSink,
    ) -> Result<Finished, RunError> {
        let limit = self.settings.max_output_bytes;
        run::attend(running, deadline, limit, Some(progress)).instrument(debug_span!("attend")).await
    }

    /// Takes a sandbox that waits for a script, or builds one.
    async fn start(
        &self,
        prepared: &mut Prepared,
        script: &str,
        deadline: Instant,
    ) -> Result<Running, RunError> {
        // Another decoder would want to read the script twice, which a pipe does not allow.
        if let [file] = prepared.spec.files.as_slice()
            && script::coding::reads_as_utf8(script)
            && let Some(slot) = self.pool.take(&prepared.spec, deadline).await
        {
            let note = slot.note();
            match slot.waiting.deliver(&file.content) {
                Ok(running) => {
                    tracing::debug!("a waiting sandbox was used");
                    prepared.notes.extend(note.filter(|note| !prepared.notes.contains(note)));
                    return Ok(running);
                }
                Err(error) => tracing::debug!(%error, "a waiting sandbox was lost"),
            }
        }
        run::start(self.sandbox.as_ref(), &prepared.spec, deadline).await
    }

    /// Gets sandboxes to wait for the first script, which most likely has no requirements.
    pub async fn expect_calls(&self) -> Result<(), ExecutionError> {
        if self.settings.pool_size == 0 {
            return Ok(());
        }
        let request = ExecutionRequest {
            script: "pass".to_owned(),
            dependencies: Vec::new(),
            python: self.settings.python,
            timeout: EXPECTING_TAKES,
        };
        let prepared =
            self.prepare(&request, Instant::now() + EXPECTING_TAKES, &(Arc::new(|_| {}) as _)).await?;
        self.pool.keep(&prepared.spec, prepared.environment);
        Ok(())
    }

    /// Waits for a free place, first come, first served.
    async fn place(
        &self,
        progress: &ProgressSink,
    ) -> Result<tokio::sync::SemaphorePermit<'_>, ExecutionError> {
        if let Ok(place) = self.places.try_acquire() {
            return Ok(place);
        }
        let _turn = self.queue.join()?;
        progress(Progress::Queued);
        let places = self.settings.max_concurrent;
        self.places.acquire().await.map_err(|_| failure::busy(places, places))
    }

    fn report(
        &self,
        finished: Finished,
        environment: &Environment,
        mut notes: Vec<String>,
        duration: Duration,
    ) -> (ExecutionReport, Running) {
        let facts = self.sandbox.facts();
        let tier = facts.tier.as_ref().copied().unwrap_or(Tier::None);
        if tier == Tier::None {
            notes.insert(0, "unconfined: this ran on the host without any isolation".to_owned());
        }
        let mut limit = finished.outcome.limit;
        if finished.outcome.status == ExitStatus::Exited(1) {
            notes.extend(missing::in_run(&finished.stderr.text));
            let limits = &self.settings.limits;
            limit = limit.or_else(|| evidence::limit_in(&finished.stderr.text, limits, tier));
        }
        let report = ExecutionReport {
            stdout: finished.stdout,
            stderr: finished.stderr,
            status: finished.outcome.status,
            timed_out: finished.timed_out,
            duration,
            python: environment.interpreter.version.clone(),
            environment: Arc::clone(&environment.key),
            backend: facts.backend,
            tier,
            layers: finished.layers,
            limit,
            usage: finished.outcome.usage,
            output: finished.left.output,
            notes,
        };
        (report, finished.remains)
    }
}

/// What the environment of an analysed script is to be.
pub(super) fn environment_request(analysis: &Analysis, request: &ExecutionRequest) -> EnvironmentRequest {
    EnvironmentRequest {
        python: request.python,
        requires_python: analysis.metadata.requires_python.clone(),
        requirements: analysis.merged.clone(),
        tool_uv: analysis.metadata.uv.clone(),
        niceness: 0,
    }
}

fn notes_of(analysis: &Analysis) -> Vec<String> {
    analysis.warnings().map(ToString::to_string).chain(analysis.notes.iter().cloned()).collect()
}

/// Variables of every script: where its folders are, who it is, UTF-8 everywhere. Output is unbuffered, so that what
/// was printed before a timeout is there.
pub(super) fn base_environment() -> BTreeMap<String, String> {
    let fixed = [
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("HOME", HOME_DIR),
        ("TMPDIR", "/tmp"),
        ("USER", USER_NAME),
        ("LOGNAME", USER_NAME),
        ("SHELL", "/bin/sh"),
        ("LANG", "C.UTF-8"),
        ("PYTHONUNBUFFERED", "1"),
    ];
    let mut env: BTreeMap<String, String> =
        fixed.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    if let Ok(zone) = std::env::var("TZ") {
        env.insert("TZ".to_owned(), zone);
    }
    env
}

impl Execute for Engine {
    fn execute(
        &self,
        request: ExecutionRequest,
        progress: ProgressSink,
    ) -> BoxFuture<'_, Result<ExecutionReport, ExecutionError>> {
        Box::pin(self.execute_now(request, progress))
    }

    fn validate(&self, script: String, dependencies: Vec<String>) -> BoxFuture<'_, Validation> {
        Box::pin(check::validate(self, script, dependencies))
    }

    fn overview(&self) -> BoxFuture<'_, Overview> {
        Box::pin(check::overview(self))
    }
}
