//! Makes an environment: resolves the requirements to exact files, installs these into an empty environment.
//!
//! Two steps of uv, so that a failure tells by its step what kind it is. Wheels are unpacked; no code of a package
//! runs in either.

use std::path::{Path, PathBuf};

use super::dates;
use super::failure::{EnvironmentError, MAKE_ROOM, Step, from_uv};
use super::figures;
use super::files::{Folders, free_space, seal};
use super::interpreters::Interpreter;
use super::job::{JobFolder, Runner, StepOutput};
use super::progress::Reporter;
use super::redact::redact;
use super::request::EnvironmentRequest;
use super::service::Environments;
use super::source::{SourceBuilds, Sources};
use super::uv::Uv;
use super::venv;
use super::watch::{Watched, too_large};
use crate::sandbox::spec::{Mount, Network};
use crate::script::Requirement;
use crate::script::tool_uv::Closed;

/// How much of the disk a download takes at least: unpacked in the environment to some three times its size. The package
/// cache may hold it already.
const UNPACKED: u64 = 3;

/// What is being done in the second step.
const INSTALLING: &str = "downloading and installing packages";

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
    /// Makes the environments in which packages are built.
    pub environments: &'a Environments,
    /// Whether packages without a wheel are built.
    pub source_builds: SourceBuilds,
    /// Reach of the network for code of packages.
    pub build_network: Network,
    /// Where built wheels are kept.
    pub built: PathBuf,
}

/// What requirements were resolved to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolution {
    /// The exact files, as a `pylock.toml`.
    pub lock_file: String,
    /// Number of packages.
    pub packages: u64,
    /// Bytes to download.
    pub size: u64,
    /// Folders of wheels that were built here.
    pub wheels: Vec<Mount>,
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
    /// One try at choosing versions, with what is known of source code.
    pub(super) async fn compile(&self, sources: &Sources) -> Result<StepOutput, EnvironmentError> {
        let input = self.job.write("pyproject.toml", &sources.project(&self.request.tool_uv))?;
        let mut args = words(&["pip", "compile", "--format", "pylock.toml", "--no-header", "--no-annotate"]);
        args.extend(sources.options());
        args.extend(["--python".to_owned(), text(&self.interpreter.executable), text(&input)]);
        let mut config = self.config();
        sources.configure(&mut config);
        let nothing = Resolution::default();
        let watched = self.watched("resolving dependencies", self.job.path().join("none"), &nothing);
        watched.during(self.reporter, self.uv(args, config, sources.mounts())).await
    }

    /// What was chosen, checked for its size.
    pub(super) fn resolution(
        &self,
        sources: &Sources,
        lock_file: &toml::Table,
        stderr: &str,
    ) -> Result<Resolution, EnvironmentError> {
        let size = download_size(lock_file);
        if size > self.largest {
            return Err(EnvironmentError::Refused(format!(
                "the dependencies are {} MB of downloads, more than the {} MB that --cache-size leaves for an environment",
                size >> 20,
                self.largest >> 20
            )));
        }
        let mut notes = sources.notes().to_vec();
        notes.extend(warnings(stderr));
        let packages = packages(lock_file).count() as u64;
        Ok(Resolution { packages, notes, lock_file: lock_file.to_string(), wheels: sources.mounts(), size })
    }

    /// Installs exactly these files.
    pub async fn install(&self, resolution: &Resolution) -> Result<Built, EnvironmentError> {
        self.check_space(resolution.size)?;
        let root = self.empty()?;
        if resolution.packages > 0 {
            self.reporter.phase(INSTALLING, 0, resolution.packages);
            let lock_file = self.job.write("pylock.toml", &resolution.lock_file)?;
            let args = install_args(&root.join("bin/python"), &lock_file);
            let mut mounts = resolution.wheels.clone();
            mounts.extend(venv::folders(&root, self.interpreter).into_iter().map(Mount::read_write));
            let watched = self.watched(INSTALLING, venv::packages(&root, self.interpreter), resolution);
            let output = watched.during(self.reporter, self.uv(args, self.config(), mounts)).await?;
            self.check(Step::Install, &output)?;
            self.reporter.phase("packages installed", resolution.packages, resolution.packages);
        }
        let sealing = root.clone();
        let interpreter = self.interpreter.clone();
        let size = tokio::task::spawn_blocking(move || {
            let _ = std::fs::remove_file(sealing.join(".lock"));
            figures::add(&sealing, &interpreter)?;
            seal(&sealing, Folders::Open)
        })
        .await
        .map_err(|error| EnvironmentError::Sandbox(error.to_string()))?
        .map_err(|error| EnvironmentError::storage("the environment could not be sealed", &error))?;
        if size > self.most_unpacked() {
            return Err(too_large(self.most_unpacked()));
        }
        Ok(Built { path: root, size })
    }

    fn watched(&self, what: &'static str, packages: PathBuf, resolution: &Resolution) -> Watched {
        Watched {
            what,
            packages,
            cache: self.runner.package_cache.clone(),
            total: resolution.packages,
            size: resolution.size,
            most: self.most_unpacked(),
        }
    }

    fn most_unpacked(&self) -> u64 {
        self.largest.saturating_mul(UNPACKED)
    }

    /// Better now than after minutes of downloading.
    fn check_space(&self, download: u64) -> Result<(), EnvironmentError> {
        let needed = download.saturating_mul(UNPACKED);
        match free_space(self.job.path()) {
            Some(free) if free < needed => Err(EnvironmentError::Storage {
                context: format!("the dependencies need about {} MB of disk", needed >> 20),
                reason: format!("{} MB are free in {}", free >> 20, self.job.path().display()),
                remedy: MAKE_ROOM,
            }),
            _ => Ok(()),
        }
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
        config: toml::Table,
        visible: Vec<Mount>,
    ) -> Result<StepOutput, EnvironmentError> {
        let config = self.job.write("uv.toml", &config.to_string())?;
        args.extend(["--config-file".to_owned(), text(&config)]);
        let none = std::collections::BTreeMap::new();
        let mut mounts = self.interpreter.mounts();
        mounts.extend(visible);
        self.runner.uv(&self.uv.path, args, self.job, &mounts, &none).await
    }

    /// The script's settings with the user's indexes. What is built, and how far back the packages go, is not the
    /// script's alone to say.
    pub(super) fn config(&self) -> toml::Table {
        let mut script = self.request.tool_uv.clone();
        script.no_build = Closed::default();
        script.no_binary = Closed::default();
        if let Some(limit) = self.runner.index.exclude_newer() {
            dates::keep_to(limit, &mut script);
        }
        let indexes = script.take_indexes();
        let mut config = self.runner.index.to_toml(indexes);
        let settings: toml::Table = toml::from_str(&script.to_uv_toml()).unwrap_or_default();
        for (name, value) in settings {
            match (config.get_mut(&name), value) {
                (Some(toml::Value::Array(ours)), toml::Value::Array(mut theirs)) => {
                    theirs.append(ours);
                    *ours = theirs;
                }
                (_, value) => drop(config.insert(name, value)),
            }
        }
        config
    }

    pub(super) fn check(&self, step: Step, output: &StepOutput) -> Result<(), EnvironmentError> {
        if output.code == 0 {
            return Ok(());
        }
        tracing::debug!(?step, code = output.code, "uv failed");
        let error = from_uv(step, &self.interpreter.version, output.code, &output.stderr);
        let error = error.with_certificates(self.runner.connection.notes());
        Err(error.with_suggestions(self.request.requirements.iter().map(Requirement::name)))
    }
}

/// uv's arguments for installing exactly the files of a lock file.
pub(super) fn install_args(python: &Path, lock_file: &Path) -> Vec<String> {
    let mut args = words(&["pip", "install", "--only-binary", ":all:", "--no-deps", "--python"]);
    args.extend([text(python), "-r".to_owned(), text(lock_file)]);
    args
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

fn packages(lock_file: &toml::Table) -> impl Iterator<Item = &toml::Table> {
    let packages = lock_file.get("packages").and_then(toml::Value::as_array);
    packages.into_iter().flatten().filter_map(toml::Value::as_table)
}

/// Bytes to download: of each package the first file, which is the one that fits best.
fn download_size(lock_file: &toml::Table) -> u64 {
    packages(lock_file)
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
        let lock = toml::from_str(LOCK).expect("TOML");
        assert_eq!((packages(&lock).count(), download_size(&lock)), (2, 15));
        assert_eq!(packages(&toml::Table::new()).count(), 0);
    }

    #[test]
    fn warnings_become_notes() {
        let stderr =
            "Resolved 1 package\nwarning: `a==1` is yanked (reason: \"bad\")\nwarning: x is experimental\n";
        assert_eq!(warnings(stderr), ["`a==1` is yanked (reason: \"bad\")"]);
    }
}
