//! Installs an interpreter into the data folder through uv's ordinary download path, in the sandbox of that role.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::super::data_dir::DataDir;
use super::super::failure::{EnvironmentError, trim};
use super::super::files::{Folders, seal};
use super::super::host::HostEnv;
use super::super::job::{JobFolder, Runner};
use super::super::lock::{Lock, Sharing};
use super::super::redact::redact;
use super::super::uv::Uv;
use crate::sandbox::spec::Mount;

/// Settings of the user that say where interpreters come from.
pub const SOURCES: [&str; 3] =
    ["UV_PYTHON_DOWNLOADS_JSON_URL", "UV_PYTHON_INSTALL_MIRROR", "UV_PYTHON_CPYTHON_BUILD"];

/// Installs interpreters.
#[derive(Debug)]
pub struct Installer<'a> {
    /// Where they go.
    pub data: &'a DataDir,
    /// The user's environment.
    pub env: &'a HostEnv,
    /// Runs uv.
    pub runner: &'a Runner,
    /// uv.
    pub uv: &'a Uv,
}

/// The right to install.
#[derive(Debug)]
pub struct Turn(#[expect(dead_code, reason = "held, and given up with this")] Lock);

impl Installer<'_> {
    /// Waits until nobody else installs an interpreter. What was missing can be there then.
    pub async fn turn(&self) -> Result<Turn, EnvironmentError> {
        let lock = Lock::take(self.data.locks().join("python.lock"), Sharing::Exclusive).await;
        lock.map(Turn)
            .map_err(|error| EnvironmentError::storage("the interpreters could not be locked", &error))
    }

    /// Installs what the request names (`3.13`, `>=3.14`). Gives uv's words where it fails.
    pub async fn install(&self, request: &str, _turn: &Turn) -> Result<(), InstallFailure> {
        if self.env.get("UV_PYTHON_DOWNLOADS").is_some_and(|value| value != "automatic" && value != "manual")
        {
            return Err(InstallFailure::Uv(
                "downloads of Python are switched off by UV_PYTHON_DOWNLOADS".into(),
            ));
        }
        let job = JobFolder::create(self.data)?;
        // In its final place: uv writes the place into the installation, and moves it there whole.
        let target = self.data.interpreters();
        let mut env = BTreeMap::from([("UV_PYTHON_DOWNLOADS".to_owned(), "manual".to_owned())]);
        for name in SOURCES {
            if let Some(value) = self.env.get(name) {
                env.insert(name.to_owned(), value.to_owned());
            }
        }
        let mut args: Vec<String> =
            ["python", "install", "--no-config", "--no-bin", "--install-dir"].map(str::to_owned).into();
        args.extend([target.to_string_lossy().into_owned(), request.to_owned()]);
        let mut mounts = local_sources(&env);
        mounts.push(Mount::read_write(&target));
        let output = self.runner.uv(&self.uv.path, args, &job, &mounts, &env).await?;
        if output.code != 0 {
            return Err(InstallFailure::Uv(trim(&redact(&output.stderr))));
        }
        Self::close(&target)
            .map_err(|error| EnvironmentError::storage("the interpreter could not be closed", &error).into())
    }

    /// Nobody writes to what is installed, apart from bytecode files that its owner adds.
    fn close(folder: &Path) -> std::io::Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() && !entry.file_name().to_string_lossy().starts_with('.') {
                seal(&entry.path(), Folders::Open)?;
            }
        }
        Ok(())
    }
}

/// Why nothing was installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallFailure {
    /// uv said no.
    #[error("{0}")]
    Uv(String),
    /// It did not come to uv's work.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
}

impl InstallFailure {
    /// The error for the caller; uv's own words go through `explain`.
    pub fn into_result<T>(
        self,
        explain: impl FnOnce(String) -> EnvironmentError,
    ) -> Result<T, EnvironmentError> {
        match self {
            Self::Uv(detail) => Err(explain(detail)),
            Self::Environment(error) => Err(error),
        }
    }
}

/// Files that the user's settings name by `file:` URLs or paths: the list, and the archives that it lists.
fn local_sources(env: &BTreeMap<String, String>) -> Vec<Mount> {
    let list = env.get("UV_PYTHON_DOWNLOADS_JSON_URL").and_then(|url| local_path(url));
    let mirror = env.get("UV_PYTHON_INSTALL_MIRROR").and_then(|url| local_path(url));
    let archives = list.as_deref().map(archives).unwrap_or_default();
    let paths = list.into_iter().chain(mirror).chain(archives);
    paths.filter_map(|path| path.canonicalize().ok()).map(Mount::read_only).collect()
}

fn archives(list: &Path) -> Vec<PathBuf> {
    let text = std::fs::read(list).unwrap_or_default();
    let entries: BTreeMap<String, serde_json::Value> = serde_json::from_slice(&text).unwrap_or_default();
    entries.values().filter_map(|entry| local_path(entry.get("url")?.as_str()?)).collect()
}

fn local_path(url: &str) -> Option<PathBuf> {
    let path = match url.strip_prefix("file://") {
        Some(path) => PathBuf::from(super::super::redact::percent_decode(path)),
        None => PathBuf::from(url),
    };
    path.is_absolute().then_some(path)
}
