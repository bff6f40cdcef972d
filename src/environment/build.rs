//! Makes an environment: resolves the requirements to exact files, installs these into an empty environment.
//!
//! Two steps of uv, so that a failure tells by its step what kind it is. Wheels are unpacked; no code of a package
//! runs in either.

use std::path::{Path, PathBuf};

use super::failure::{EnvironmentError, Step, from_uv};
use super::files::{Folders, seal};
use super::index::IndexSettings;
use super::interpreters::Interpreter;
use super::job::{JobFolder, Runner, StepOutput};
use super::progress::Reporter;
use super::redact::redact;
use super::request::EnvironmentRequest;
use super::uv::Uv;
use super::venv;
use crate::sandbox::spec::Mount;

/// Everything that both steps need.
#[derive(Debug)]
pub struct Builder<'a> {
    /// Runs uv.
    pub runner: &'a Runner,
    /// uv.
    pub uv: &'a Uv,
    /// For which interpreter.
    pub interpreter: &'a Interpreter,
    /// Where the work is done.
    pub job: &'a JobFolder,
    /// What is asked for.
    pub request: &'a EnvironmentRequest,
    /// The most that the packages may take, in bytes of downloads.
    pub largest: u64,
    /// Who is told how it goes.
    pub reporter: &'a Reporter,
}

/// What requirements were resolved to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolution {
    /// The exact files, as a `pylock.toml`.
    pub lock_file: String,
    /// Number of packages.
    pub packages: u64,
    /// Things the user should know: a version that was withdrawn ...
    pub notes: Vec<String>,
}

/// An environment in its job folder, finished and sealed.
#[derive(Debug)]
pub struct Built {
    /// Where it is.
    pub path: PathBuf,
    /// Its size on disk in bytes.
    pub size: u64,
}

impl Builder<'_> {
    /// Chooses versions.
    pub async fn resolve(&self) -> Result<Resolution, EnvironmentError> {
        self.reporter.phase("resolving dependencies", 0, 0);
        let input = self.job.write("script.py", &self.request.metadata_script())?;
        let output = self.uv(compile_args(&self.interpreter.executable, &input), Vec::new()).await?;
        check(self.interpreter, Step::Resolve, &output)?;
        resolution(output, self.largest)
    }

    /// Installs exactly these files.
    pub async fn install(&self, resolution: &Resolution) -> Result<Built, EnvironmentError> {
        let root = self.empty()?;
        if resolution.packages > 0 {
            self.reporter.phase("downloading and installing packages", 0, resolution.packages);
            let lock_file = self.job.write("pylock.toml", &resolution.lock_file)?;
            let args = install_args(&root.join("bin/python"), &lock_file);
            let output = self.uv(args, venv::folders(&root, self.interpreter)).await?;
            check(self.interpreter, Step::Install, &output)?;
            self.reporter.phase("packages installed", resolution.packages, resolution.packages);
        }
        let sealing = root.clone();
        let size = tokio::task::spawn_blocking(move || {
            let _ = std::fs::remove_file(sealing.join(".lock"));
            seal(&sealing, Folders::Open)
        })
        .await
        .map_err(|error| EnvironmentError::Sandbox(error.to_string()))?
        .map_err(|error| EnvironmentError::storage("the environment could not be sealed", &error))?;
        Ok(Built { path: root, size })
    }

    fn empty(&self) -> Result<PathBuf, EnvironmentError> {
        let root = self.job.path().join("environment");
        venv::create(&root, self.interpreter)
            .map_err(|error| EnvironmentError::storage("the environment could not be made", &error))?;
        Ok(root)
    }

    async fn uv(
        &self,
        mut args: Vec<String>,
        writable: Vec<PathBuf>,
    ) -> Result<StepOutput, EnvironmentError> {
        let config = self.job.write("uv.toml", &config(&self.runner.index, self.request).to_string())?;
        args.extend(["--config-file".to_owned(), text(&config)]);
        let none = std::collections::BTreeMap::new();
        let mut mounts = self.interpreter.mounts();
        mounts.extend(writable.into_iter().map(Mount::read_write));
        self.runner.uv(&self.uv.path, args, self.job, &mounts, &none).await
    }
}

/// uv's arguments for choosing versions.
pub(super) fn compile_args(python: &Path, script: &Path) -> Vec<String> {
    let mut args =
        words(&["pip", "compile", "--no-build", "--format", "pylock.toml", "--no-header", "--no-annotate"]);
    args.extend(["--python".to_owned(), text(python), text(script)]);
    args
}

/// uv's arguments for installing exactly the files of a lock file.
pub(super) fn install_args(python: &Path, lock_file: &Path) -> Vec<String> {
    let mut args = words(&["pip", "install", "--no-build", "--no-deps", "--python"]);
    args.extend([text(python), "-r".to_owned(), text(lock_file)]);
    args
}

/// The script's settings with the user's indexes after the script's own.
pub(super) fn config(index: &IndexSettings, request: &EnvironmentRequest) -> toml::Table {
    let mut config = index.to_toml();
    let settings: toml::Table = toml::from_str(&request.tool_uv.to_uv_toml()).unwrap_or_default();
    for (name, value) in settings {
        match (config.get_mut(&name), value) {
            (Some(toml::Value::Array(ours)), toml::Value::Array(mut theirs)) => {
                theirs.append(ours);
                *ours = theirs;
            }
            (_, value) => {
                config.insert(name, value);
            }
        }
    }
    config
}

/// What uv chose, unless it is more than `largest` bytes to download.
pub(super) fn resolution(output: StepOutput, largest: u64) -> Result<Resolution, EnvironmentError> {
    let resolution = Resolution {
        packages: count(&output.stdout),
        notes: warnings(&output.stderr),
        lock_file: output.stdout,
    };
    let size = download_size(&resolution.lock_file);
    if size > largest {
        return Err(EnvironmentError::Refused(format!(
            "the dependencies are {} MB of downloads, more than the {} MB that --cache-size leaves for an environment",
            size >> 20,
            largest >> 20
        )));
    }
    Ok(resolution)
}

/// uv's failure in words.
pub(super) fn check(
    interpreter: &Interpreter,
    step: Step,
    output: &StepOutput,
) -> Result<(), EnvironmentError> {
    if output.code == 0 {
        return Ok(());
    }
    tracing::debug!(?step, code = output.code, "uv failed");
    Err(from_uv(step, &interpreter.version, output.code, &output.stderr))
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// uv's warnings about what was chosen, apart from those about itself.
fn warnings(stderr: &str) -> Vec<String> {
    redact(stderr)
        .lines()
        .filter_map(|line| line.strip_prefix("warning: "))
        .filter(|line| !line.contains("experimental"))
        .map(str::to_owned)
        .collect()
}

fn packages(lock_file: &str) -> Vec<toml::Table> {
    let table: toml::Table = toml::from_str(lock_file).unwrap_or_default();
    let packages = table.get("packages").and_then(toml::Value::as_array);
    packages.into_iter().flatten().filter_map(|package| package.as_table().cloned()).collect()
}

fn count(lock_file: &str) -> u64 {
    packages(lock_file).len() as u64
}

/// Bytes to download: of each package the first file, which is the one that fits best.
fn download_size(lock_file: &str) -> u64 {
    packages(lock_file)
        .iter()
        .filter_map(|package| {
            let wheel =
                package.get("wheels").and_then(toml::Value::as_array).and_then(|wheels| wheels.first());
            let file = wheel.or_else(|| package.get("archive")).or_else(|| package.get("sdist"))?;
            u64::try_from(file.get("size")?.as_integer()?).ok()
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "lock-version = \"1.0\"\n[[packages]]\nname = \"a\"\nwheels = [{ url = \"u\", size = 10 }, \
                        { url = \"v\", size = 99 }]\n[[packages]]\nname = \"b\"\narchive = { url = \"w\", size = 5 }\n";

    #[test]
    fn a_lock_file_tells_how_much_there_is_to_do() {
        assert_eq!((count(LOCK), download_size(LOCK)), (2, 15));
        assert_eq!(count(""), 0);
    }

    #[test]
    fn warnings_become_notes() {
        let stderr =
            "Resolved 1 package\nwarning: `a==1` is yanked (reason: \"bad\")\nwarning: x is experimental\n";
        assert_eq!(warnings(stderr), ["`a==1` is yanked (reason: \"bad\")"]);
    }
}
