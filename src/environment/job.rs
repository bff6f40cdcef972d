//! One step of uv in its sandbox: what it sees, what it may write, and how long it may take.
//!
//! It sees uv, the interpreter, certificates and two writable folders: the package cache and its own job folder.
//! No file of the user is visible, and of the user's environment it gets what is named here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::OnceCell;

use super::connection::Connection;
use super::credentials::{Credentials, Pair};
use super::data_dir::{DataDir, unique};
use super::failure::EnvironmentError;
use super::files::remove_tree;
use super::host::HostEnv;
use super::index::IndexSettings;
use super::inside;
use super::lock::{Lock, Sharing};
use super::reach::Reach;
use crate::sandbox::spec::{Command, Limits, Mount, Network, Role, SandboxSpec};
use crate::sandbox::{ExitStatus, Sandbox};

/// Bytes kept of each stream; a thousand packages take about 5 MB in a lock file.
const OUTPUT_LIMIT: u64 = 32 << 20;
/// Folders in which uv finds git and a shell.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A private folder for one preparation, removed with everything in it when dropped.
#[derive(Debug)]
pub struct JobFolder {
    path: PathBuf,
    lock: Option<Lock>,
}

impl JobFolder {
    /// Makes a new one.
    pub fn create(data: &DataDir) -> Result<Self, EnvironmentError> {
        let failed = |error: &std::io::Error| EnvironmentError::storage("no job folder could be made", error);
        data.ensure().map_err(|error| failed(&error))?;
        let path = data.jobs().join(unique());
        let lock = Lock::try_take(&path.with_extension("lock"), Sharing::Exclusive)
            .map_err(|error| failed(&error))?;
        std::fs::create_dir_all(&path).map_err(|error| failed(&error))?;
        Ok(Self { path, lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file into it.
    pub fn write(&self, name: &str, content: &str) -> Result<PathBuf, EnvironmentError> {
        let path = self.path.join(name);
        std::fs::write(&path, content).map_err(|error| {
            EnvironmentError::storage(format!("{} could not be written", path.display()), &error)
        })?;
        Ok(path)
    }

    /// Makes a folder in it.
    pub fn folder(&self, name: &str) -> Result<PathBuf, EnvironmentError> {
        let path = self.path.join(name);
        std::fs::create_dir_all(&path).map_err(|error| {
            EnvironmentError::storage(format!("{} could not be made", path.display()), &error)
        })?;
        Ok(path)
    }

    /// Removes what earlier servers left behind when they were killed.
    pub fn sweep(data: &DataDir) {
        for entry in std::fs::read_dir(data.jobs()).into_iter().flatten().flatten() {
            let path = entry.path();
            let lock_path = path.with_extension("lock");
            if let Ok(Some(lock)) = Lock::try_take(&lock_path, Sharing::Exclusive) {
                if path != lock_path {
                    remove_tree(&path);
                }
                lock.remove();
            }
        }
    }
}

impl Drop for JobFolder {
    fn drop(&mut self) {
        remove_tree(&self.path);
        if let Some(lock) = self.lock.take() {
            lock.remove();
        }
    }
}

/// What a step left behind.
#[derive(Debug)]
pub struct StepOutput {
    /// Exit code, or 128 and the signal.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Runs steps in sandboxes.
#[derive(Clone)]
pub struct Runner {
    /// The backend.
    pub sandbox: Arc<dyn Sandbox>,
    /// Certificates and proxies.
    pub connection: Connection,
    /// Package indexes.
    pub index: IndexSettings,
    /// uv's package cache.
    pub package_cache: PathBuf,
    /// The user's environment, for credentials.
    pub env: HostEnv,
    /// Servers of this machine that the user's settings name.
    pub reach: Arc<Reach>,
    /// Found when they are first needed.
    pub credentials: Arc<OnceCell<Credentials>>,
    /// How far everything else goes first (`nice(2)`).
    pub niceness: u8,
}

impl std::fmt::Debug for Runner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("package_cache", &self.package_cache).finish_non_exhaustive()
    }
}

impl Runner {
    /// Runs uv with these arguments. The package cache is locked against removal meanwhile.
    pub async fn uv(
        &self,
        uv: &Path,
        args: Vec<String>,
        job: &JobFolder,
        visible: &[Mount],
        extra_env: &BTreeMap<String, String>,
    ) -> Result<StepOutput, EnvironmentError> {
        let cache_lock = self.package_cache.with_extension("lock");
        let _lock = Lock::take(cache_lock, Sharing::Shared)
            .await
            .map_err(|error| EnvironmentError::storage("the package cache could not be locked", &error))?;
        std::fs::create_dir_all(&self.package_cache)
            .map_err(|error| EnvironmentError::storage("the package cache could not be made", &error))?;
        let mut env = self.uv_env(job.path()).await;
        env.extend(extra_env.iter().map(|(name, value)| (name.clone(), value.clone())));
        let mut mounts = match self.sandbox.volumes() {
            Some(volumes) => vec![inside::packages(volumes)],
            None => vec![Mount::read_only(uv), Mount::read_write(&self.package_cache)],
        };
        mounts.extend(visible.iter().cloned());
        let command = Command { program: uv.to_owned(), args, env, cwd: job.path().to_owned() };
        self.prepare(command, mounts, job.path()).await
    }

    /// Runs a tool of the preparing stage, with the network and one writable folder.
    pub async fn prepare(
        &self,
        command: Command,
        mut mounts: Vec<Mount>,
        writable: &Path,
    ) -> Result<StepOutput, EnvironmentError> {
        mounts.extend(self.connection.mounts().iter().cloned());
        mounts.push(Mount::read_write(writable));
        self.run(SandboxSpec {
            role: Role::Prepare,
            command,
            mounts,
            files: Vec::new(),
            network: self.network(),
            named_servers: self.reach.addresses().await,
            limits: limits(),
            channel: false,
        })
        .await
    }

    /// Pages and packages name addresses too: where the backend can, it keeps this machine and its link out of reach.
    fn network(&self) -> Network {
        if self.sandbox.outbound().is_ok() { Network::Outbound } else { Network::Host }
    }

    /// The user's credentials for an address, where it belongs to a configured index.
    pub async fn index_credentials(&self, url: &str) -> Option<Pair> {
        self.credentials().await.of(url)
    }

    /// The credentials of the configured indexes, found once.
    pub async fn credentials(&self) -> &Credentials {
        self.credentials.get_or_init(|| Credentials::find(&self.index, &self.env)).await
    }

    /// Runs any specification to its end and keeps what it printed, up to a bound.
    pub async fn run(&self, spec: SandboxSpec) -> Result<StepOutput, EnvironmentError> {
        let mut bytes = Vec::new();
        let output = self.run_to(spec, &mut bytes, OUTPUT_LIMIT).await?;
        Ok(StepOutput { stdout: String::from_utf8_lossy(&bytes).into_owned(), ..output })
    }

    /// Runs a specification and puts its standard output into a file, up to a bound.
    pub async fn run_into(
        &self,
        spec: SandboxSpec,
        file: &Path,
        most: u64,
    ) -> Result<StepOutput, EnvironmentError> {
        let opened = tokio::fs::File::create(file).await;
        let mut opened =
            opened.map_err(|error| EnvironmentError::storage("a file could not be made", &error))?;
        self.run_to(spec, &mut opened, most).await
    }

    async fn run_to(
        &self,
        spec: SandboxSpec,
        sink: &mut (impl AsyncWrite + Unpin),
        most: u64,
    ) -> Result<StepOutput, EnvironmentError> {
        let failed = |error: String| EnvironmentError::Sandbox(error);
        let spec = SandboxSpec {
            limits: Limits { niceness: self.niceness.max(spec.limits.niceness), ..spec.limits },
            ..spec
        };
        let running = self.sandbox.start(&spec).await.map_err(|error| failed(error.to_string()))?;
        let crate::sandbox::Running { stdout, stderr, mut control, .. } = running;
        let mut text = Vec::new();
        let (stdout, stderr, outcome) =
            tokio::join!(read(stdout, sink, most), read(stderr, &mut text, OUTPUT_LIMIT), control.wait());
        let outcome = outcome.map_err(|error| failed(error.to_string()))?;
        stdout.and(stderr).map_err(|error| EnvironmentError::storage("output could not be kept", &error))?;
        let code = match outcome.status {
            ExitStatus::Exited(code) => code,
            ExitStatus::Signaled(signal) => 128 + signal,
        };
        Ok(StepOutput { code, stdout: String::new(), stderr: String::from_utf8_lossy(&text).into_owned() })
    }

    /// The whole environment of uv.
    pub(super) async fn uv_env(&self, home: &Path) -> BTreeMap<String, String> {
        let path = |path: PathBuf| path.to_string_lossy().into_owned();
        let cache = match self.sandbox.volumes() {
            Some(volumes) => inside::packages(volumes).target,
            None => self.package_cache.clone(),
        };
        let fixed = [
            ("PATH", PATH.to_owned()),
            ("LANG", "C.UTF-8".to_owned()),
            ("HOME", path(home.to_owned())),
            ("UV_CACHE_DIR", path(cache)),
            // A hard link would share the file with the cache, which is writable in this role. Copying costs
            // 0.2 s for 100 MB, once.
            ("UV_LINK_MODE", "copy".to_owned()),
            ("UV_PYTHON_DOWNLOADS", "never".to_owned()),
            ("UV_NO_PROGRESS", "1".to_owned()),
            ("UV_PREVIEW", "1".to_owned()),
            ("UV_HTTP_RETRIES", "2".to_owned()),
        ];
        let fixed = fixed.into_iter().map(|(name, value)| (name.to_owned(), value));
        fixed.chain(self.connection.for_uv()).chain(self.credentials().await.variables()).collect()
    }
}

/// A resolver with many connections; packages of several gigabytes.
pub(super) fn limits() -> Limits {
    Limits { open_files: 4096, disk: 16 << 30, ..Limits::default() }
}

/// Copies a stream up to a bound, and reads and drops the rest so that its writer can end.
async fn read(
    mut stream: impl AsyncRead + Unpin,
    sink: &mut (impl AsyncWrite + Unpin),
    most: u64,
) -> std::io::Result<()> {
    let kept = tokio::io::copy(&mut (&mut stream).take(most), sink).await;
    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    kept?;
    sink.flush().await
}
