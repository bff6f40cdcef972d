//! From a request to an environment: the one place where finding, resolving, building and keeping come together.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::{OnceCell, watch};
use tokio::time::Instant;

use super::build::{Builder, Resolution};
use super::connection::Connection;
use super::credentials::addresses;
use super::data_dir::DataDir;
use super::failure::{EnvironmentError, LET_IN};
use super::files::write_atomically;
use super::flight::Flights;
use super::host::HostEnv;
use super::index::{IndexSettings, PlainHttp};
use super::inside;
use super::interpreters::{Interpreter, InterpreterIndex, Wanted};
use super::job::{JobFolder, Runner};
use super::lock::{Lock, Sharing};
use super::progress::{PhaseSink, Reporter};
use super::python::PythonVersion;
use super::reach::Reach;
use super::request::{EnvironmentRequest, environment_key, request_key};
use super::selection::Selection;
use super::source::SourceBuilds;
use super::store::{Record, Store};
use super::uses::Uses;
use super::uv::{Finder, Uv};
use super::{Environment, Options, uv_config};
use crate::sandbox::spec::Network;
use crate::sandbox::{BoxFuture, Sandbox};

/// Environments for scripts. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Environments(pub(super) Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) options: Options,
    pub(super) env: HostEnv,
    pub(super) data: Arc<DataDir>,
    pub(super) store: Store,
    pub(super) runner: Runner,
    pub(super) interpreters: InterpreterIndex,
    pub(super) selection: Selection,
    pub(super) tidied: AtomicBool,
    pub(super) uses: Uses,
    pub(super) background: watch::Sender<HashSet<Arc<str>>>,
    uv: OnceCell<Uv>,
    known: Mutex<HashMap<Arc<str>, Resolved>>,
    flights: Flights<Result<Resolved, EnvironmentError>>,
    pub(super) inside: inside::Known,
}

/// What a request was resolved to, kept under the request's key in memory and on disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Resolved {
    /// Key of the environment.
    pub environment: Arc<str>,
    /// Seconds since 1970.
    pub at: u64,
    /// Things the caller should know.
    pub notes: Vec<String>,
}

impl Environments {
    /// Opens the data folder and reads the user's settings. Starts nothing.
    pub fn open(options: Options, env: HostEnv, sandbox: Arc<dyn Sandbox>) -> Result<Self, EnvironmentError> {
        let data = Arc::new(data_dir(&options, &env, sandbox.as_ref())?);
        let index = index_settings(&env, options.plain_http);
        let connection = Connection::read(&env);
        let package_cache = data.package_cache(sandbox.facts().backend);
        let runner = Runner {
            sandbox,
            reach: Arc::new(Reach::read(&env, &index, &connection)),
            connection,
            index,
            package_cache: package_cache.clone(),
            env: env.clone(),
            credentials: Arc::default(),
            niceness: 0,
        };
        let inner = Inner {
            store: Store::new(data.clone(), package_cache, options.cache_size),
            interpreters: InterpreterIndex::new(&data, &env),
            selection: Selection::default(),
            tidied: AtomicBool::new(false),
            uses: Uses::default(),
            background: watch::Sender::default(),
            uv: OnceCell::new(),
            known: Mutex::default(),
            flights: Flights::default(),
            inside: inside::Known::default(),
            options,
            env,
            data,
            runner,
        };
        Ok(Self(Arc::new(inner)))
    }

    /// The environment for a request: from memory, from disk, or built now. Bounded by the deadline; when the last
    /// caller that waits for the same environment has gone, what builds it is killed.
    pub async fn prepare(
        &self,
        request: &EnvironmentRequest,
        deadline: Instant,
        progress: PhaseSink,
    ) -> Result<Environment, EnvironmentError> {
        let started = Instant::now();
        let reporter = Reporter::default();
        reporter.add(&progress);
        let inside = self.within(request, deadline, progress, &reporter);
        match tokio::time::timeout_at(deadline, inside).await {
            Ok(result) => result,
            Err(_) => Err(EnvironmentError::TimedOut {
                phase: reporter
                    .last()
                    .map_or_else(|| "looking for an interpreter".to_owned(), |phase| phase.what),
                index: self.indexes_of(request),
                after: deadline.saturating_duration_since(started),
            }),
        }
    }

    async fn within(
        &self,
        request: &EnvironmentRequest,
        deadline: Instant,
        progress: PhaseSink,
        seen: &Reporter,
    ) -> Result<Environment, EnvironmentError> {
        self.permit(request).await?;
        let (interpreter, note) = self.interpreter(request, deadline, seen).await?;
        let mut environment = self.obtain(&interpreter, request, progress, seen).await?;
        environment.notes.extend(note);
        if !request.requirements.is_empty() {
            environment.notes.extend(self.0.runner.index.passed_over().iter().cloned());
        }
        Ok(environment)
    }

    /// An environment in which a package is built. Boxed, since building makes environments in turn.
    pub(super) fn build_environment(
        &self,
        interpreter: Interpreter,
        request: EnvironmentRequest,
    ) -> BoxFuture<'_, Result<Environment, EnvironmentError>> {
        Box::pin(async move {
            self.permit(&request).await?;
            self.obtain(&interpreter, &request, Arc::new(|_| {}), &Reporter::default()).await
        })
    }

    /// Hosts of the package indexes that a request needs; empty where it needs none.
    fn indexes_of(&self, request: &EnvironmentRequest) -> String {
        let of_script = request.tool_uv.clone().take_indexes();
        if request.requirements.is_empty() { String::new() } else { self.0.runner.index.hosts(of_script) }
    }

    /// Refuses what would take packages from elsewhere than the user means, send the user's credentials elsewhere, or lead
    /// to this machine.
    async fn permit(&self, request: &EnvironmentRequest) -> Result<(), EnvironmentError> {
        request.check()?;
        let runner = &self.0.runner;
        match runner.index.refusal() {
            Some(reason) if !request.requirements.is_empty() => {
                return Err(EnvironmentError::Refused(format!("nothing can be installed: {reason}")));
            }
            _ => {}
        }
        let addresses = addresses(request);
        // Where a script names none, nobody has to be asked for credentials.
        if addresses.is_empty() {
            return Ok(());
        }
        runner.reach.check(&addresses)?;
        runner.credentials().await.guard(request)
    }

    async fn obtain(
        &self,
        interpreter: &Interpreter,
        request: &EnvironmentRequest,
        progress: PhaseSink,
        seen: &Reporter,
    ) -> Result<Environment, EnvironmentError> {
        let identity = self.0.runner.index.identity();
        let key = request_key(interpreter, request, &identity, self.0.options.source_builds);
        // A second round when the environment is removed between being built and being opened.
        for _ in 0..3 {
            if let Some((resolved, mut environment)) = self.kept(&key) {
                self.refresh_if_old(&key, &resolved, interpreter, request);
                if !environment.compiled {
                    self.compile_later(environment.key.clone());
                }
                environment.notes.extend(resolved.notes);
                return Ok(environment);
            }
            let flight = self.0.flights.join(&key, request.niceness, |reporter| {
                self.clone().resolve_and_build(key.clone(), interpreter.clone(), request.clone(), reporter)
            });
            let remembered = seen.clone();
            let forward = progress.clone();
            let sink: PhaseSink = Arc::new(move |phase| {
                remembered.remember(&phase);
                forward(phase);
            });
            flight.reporter.add(&sink);
            match flight.wait().await {
                Some(result) => drop(result?),
                // Somebody in more of a hurry has begun it anew.
                None if request.niceness > 0 => {}
                None => return Err(EnvironmentError::Sandbox("preparing broke off".to_owned())),
            }
        }
        Err(EnvironmentError::Storage {
            context: "the environment was removed while it was being opened".to_owned(),
            reason: "the data folder is being emptied, or --cache-size is too small".to_owned(),
            remedy: LET_IN,
        })
    }

    /// The interpreter for a request, and a note where it is not the obvious one.
    async fn interpreter(
        &self,
        request: &EnvironmentRequest,
        deadline: Instant,
        reporter: &Reporter,
    ) -> Result<(Interpreter, Option<String>), EnvironmentError> {
        let wanted = request.wanted(self.0.options.python);
        self.select(&wanted, deadline, reporter).await
    }

    /// The environment of a request that was resolved before, from memory or disk.
    fn kept(&self, key: &Arc<str>) -> Option<(Resolved, Environment)> {
        let known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
        let resolved = known.or_else(|| {
            let text = std::fs::read(self.0.resolution_path(key)).ok()?;
            let resolved: Resolved = serde_json::from_slice(&text).ok()?;
            self.remember(key, &resolved);
            Some(resolved)
        })?;
        let mut environment = match self.volumes() {
            Some(_) => self.open_inside(&resolved.environment),
            None => self.0.store.open(&resolved.environment),
        }?;
        environment.in_use = Some(self.0.uses.enter(&environment.key));
        Some((resolved, environment))
    }

    pub(super) fn remember(&self, key: &Arc<str>, resolved: &Resolved) {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), resolved.clone());
    }

    /// The work behind one key, done once for everyone who waits in this process, and once among all servers.
    async fn resolve_and_build(
        self,
        key: Arc<str>,
        interpreter: Interpreter,
        request: EnvironmentRequest,
        reporter: Reporter,
    ) -> Result<Resolved, EnvironmentError> {
        self.0.ensure_folders()?;
        self.tidy_once();
        reporter.phase("preparing the environment", 0, 0);
        let _lock = self.0.lock(&format!("request-{key}")).await?;
        if let Some((resolved, _)) = self.kept(&key) {
            return Ok(resolved);
        }
        let bound = OnBreakingOff(&self);
        let resolved = self.build(&interpreter, &request, &reporter).await?;
        std::mem::forget(bound);
        self.0.keep_resolution(&key, &resolved)?;
        self.remember(&key, &resolved);
        Ok(resolved)
    }

    pub(super) async fn build(
        &self,
        interpreter: &Interpreter,
        request: &EnvironmentRequest,
        reporter: &Reporter,
    ) -> Result<Resolved, EnvironmentError> {
        let inner = &self.0;
        inner.runner.reach.check_names(&addresses(request)).await?;
        let job = JobFolder::create(&inner.data)?;
        let uv = if request.requirements.is_empty() { Uv::unused() } else { self.uv().await?.clone() };
        let runner = Runner { niceness: request.niceness, ..inner.runner.clone() };
        let builder = Builder {
            runner: &runner,
            uv: &uv,
            interpreter,
            job: &job,
            request,
            largest: inner.options.cache_size / 4,
            reporter,
            environments: self,
            source_builds: inner.options.source_builds,
            build_network: inner.options.build_network,
            built: inner.data.built(),
        };
        let resolution =
            if request.requirements.is_empty() { Resolution::default() } else { builder.resolve().await? };
        if let Some(volumes) = self.volumes() {
            return self.install_inside(volumes, &builder, resolution).await;
        }
        let environment = environment_key(interpreter, &resolution.lock_file);
        // Other requirements may have led to it before, and those who use it keep the lock from being taken alone.
        if inner.store.open(&environment).is_some() {
            return Ok(Resolved { environment, at: now(), notes: resolution.notes });
        }
        inner.release_what_is_gone(&environment)?;
        let lock = inner.lock(&environment).await?;
        if inner.store.record(&environment).is_none() {
            let built = builder.install(&resolution).await?;
            let record = Record {
                interpreter: interpreter.clone(),
                size: built.size,
                compiled: request.requirements.is_empty(),
            };
            inner
                .store
                .publish(&environment, &built.path, &record)
                .map_err(|error| EnvironmentError::storage("the environment could not be kept", &error))?;
        }
        drop(lock);
        self.compile_later(environment.clone());
        Ok(Resolved { environment, at: now(), notes: resolution.notes })
    }

    /// uv, found or fetched once.
    pub async fn uv(&self) -> Result<&Uv, EnvironmentError> {
        let inner = &self.0;
        let find = || async {
            if let Some(volumes) = self.volumes() {
                return self.uv_inside(volumes).await;
            }
            let finder = Finder {
                named: inner.options.uv.as_deref(),
                env: &inner.env,
                data: &inner.data,
                index: &inner.runner.index,
            };
            let found = finder.find().await?;
            if inner.runner.sandbox.reaches(&found.path) { Ok(found) } else { found.copied_to(&inner.data) }
        };
        inner.uv.get_or_try_init(find).await
    }

    /// The interpreter that a request without wishes gets.
    pub async fn default_python(
        &self,
        deadline: Instant,
    ) -> Result<(Interpreter, Option<String>), EnvironmentError> {
        let wanted = Wanted { version: self.0.options.python, requires: None };
        match tokio::time::timeout_at(deadline, self.select(&wanted, deadline, &Reporter::default())).await {
            Ok(found) => found,
            Err(_) => Err(EnvironmentError::NoInterpreter {
                wanted: self.0.options.python.unwrap_or(PythonVersion::DEFAULT).to_string(),
                available: "none was found in time".to_owned(),
                detail: String::new(),
            }),
        }
    }

    /// Certificates and proxies: what a script whose network is on gets of them.
    pub fn connection(&self) -> &Connection {
        &self.0.runner.connection
    }

    /// What the user should know of the settings: folders and indexes that are not used.
    pub fn notes(&self) -> Vec<String> {
        self.0
            .data
            .note()
            .map(str::to_owned)
            .into_iter()
            .chain(self.0.runner.index.notes.iter().cloned())
            .chain(self.0.runner.connection.notes().iter().cloned())
            .collect()
    }
}

/// Keeps the size bound where building fails or is given up: packages that were unpacked by then lie in the cache.
struct OnBreakingOff<'a>(&'a Environments);

impl Drop for OnBreakingOff<'_> {
    fn drop(&mut self) {
        self.0.keep_bound_later();
    }
}

impl Inner {
    fn resolution_path(&self, key: &str) -> std::path::PathBuf {
        self.data.resolutions().join(format!("{key}.json"))
    }

    pub(super) fn compile_lock(&self, key: &str) -> std::path::PathBuf {
        self.data.locks().join(format!("compile-{key}.lock"))
    }

    fn ensure_folders(&self) -> Result<(), EnvironmentError> {
        let context = || format!("{} cannot be used", self.data.root().display());
        self.data.ensure().map_err(|error| EnvironmentError::storage(context(), &error))
    }

    /// Where an environment was removed from outside while it was in use, its users keep nobody from building it anew. One
    /// that is being built is locked by its builder alone, and is left in peace.
    fn release_what_is_gone(&self, key: &str) -> Result<(), EnvironmentError> {
        let failed = |error| EnvironmentError::storage("the store could not be locked", &error);
        let shared = Lock::try_take(&self.store.lock_path(key), Sharing::Shared).map_err(failed)?;
        match shared {
            Some(lock) if self.store.record(key).is_none() => {
                lock.abandon(&self.data.locks().join("abandon.lock")).map_err(failed)
            }
            _ => Ok(()),
        }
    }

    pub(super) async fn lock(&self, name: &str) -> Result<Lock, EnvironmentError> {
        Lock::take(self.data.locks().join(format!("{name}.lock")), Sharing::Exclusive)
            .await
            .map_err(|error| EnvironmentError::storage("the store could not be locked", &error))
    }

    pub(super) fn keep_resolution(&self, key: &str, resolved: &Resolved) -> Result<(), EnvironmentError> {
        serde_json::to_vec(resolved)
            .map_err(std::io::Error::other)
            .and_then(|text| write_atomically(&self.resolution_path(key), &text))
            .map_err(|error| EnvironmentError::storage("the resolution could not be kept", &error))
    }
}

fn index_settings(env: &HostEnv, plain_http: PlainHttp) -> IndexSettings {
    let files = uv_config::read(env);
    let mut settings = IndexSettings::read(env, files.as_deref().unwrap_or_default(), plain_http);
    if let Err(reason) = files {
        settings.refuse(reason);
    }
    settings
}

/// Where everything is kept where the sandbox cannot reach the user's own cache folder.
const SYSTEM_CACHE: &str = "/var/cache/mcp-python-exec-sandbox";

/// The named folder, or the user's, or the system's where the sandbox cannot reach the user's: root's home is closed
/// to the user that a run becomes where nothing can be mounted.
fn data_dir(options: &Options, env: &HostEnv, sandbox: &dyn Sandbox) -> Result<DataDir, EnvironmentError> {
    let reached = |cache: PathBuf| sandbox.reaches(&cache.join("folder").join("environment"));
    let system = PathBuf::from(SYSTEM_CACHE);
    match (&options.data_dir, env.xdg("XDG_CACHE_HOME", ".cache")) {
        (None, Some(cache)) if !reached(cache.clone()) => DataDir::open(Some(&system), env),
        (named, _) => DataDir::open(named.as_deref(), env),
    }
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl Default for Options {
    fn default() -> Self {
        Self {
            data_dir: None,
            uv: None,
            python: None,
            cache_size: 5 << 30,
            resolve_ttl: Duration::from_hours(24),
            plain_http: PlainHttp::Refused,
            source_builds: SourceBuilds::Allowed,
            build_network: Network::None,
        }
    }
}
