//! Runs a package's build code, in a sandbox of its own: the code and a build environment to read, a private folder
//! that is thrown away, no package cache, no credentials, and the network only where scripts have it too. What comes out is
//! bytes on a pipe: the wheel, and what it says of itself, which is believed of this package alone.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::fetch::{Fetched, plain_env};
use super::origin::SourcePackage;
use crate::environment::build::Builder;
use crate::environment::failure::{EnvironmentError, trim};
use crate::environment::redact::redact;
use crate::sandbox::spec::{Command, InlineFile, Limits, Mount, Role, SandboxSpec, WORK_DIR};
use crate::script::Requirement;

/// Runs inside.
const BUILD: &str = include_str!("build.py");
const BUILD_FILE: &str = "build.py";
/// The largest wheel that is taken.
const LARGEST: u64 = 1 << 30;
/// The longest line in which a wheel is described: some thousand requirements.
const LONGEST_LINE: u64 = 1 << 20;

/// How a package wants to be built (PEP 517 and 518).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildSystem {
    /// Requirements of the build.
    pub requires: Vec<Requirement>,
    backend: String,
    backend_path: Vec<String>,
}

/// What the build came to.
#[derive(Debug)]
pub enum Outcome {
    /// It needs these as well.
    More(Vec<Requirement>),
    /// A wheel.
    Wheel {
        /// What it is.
        about: Box<About>,
        /// The wheel, somewhere in the job folder.
        file: PathBuf,
    },
}

/// What a wheel says of itself, checked for what could reach further than the package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// File name.
    pub file: String,
    /// Normalised name.
    pub name: String,
    /// Version.
    pub version: String,
    /// What it requires.
    pub requires: Vec<String>,
    /// Its extras.
    pub extras: Vec<String>,
    /// Its `Requires-Python`, or nothing.
    pub python: String,
}

#[derive(Serialize)]
struct Job<'a> {
    step: &'a str,
    subdirectory: Option<&'a str>,
    backend: &'a str,
    backend_path: &'a [String],
    complete: bool,
}

#[derive(Deserialize)]
struct Inspected {
    pyproject: Option<String>,
    known: bool,
}

#[derive(Deserialize)]
struct More {
    more: Vec<String>,
}

/// Reads how a package wants to be built. Nothing of it runs.
pub async fn inspect(
    builder: &Builder<'_>,
    package: &SourcePackage,
    code: &Fetched,
) -> Result<BuildSystem, EnvironmentError> {
    let job = Job { step: "inspect", subdirectory: None, backend: "", backend_path: &[], complete: false };
    let job = Job { subdirectory: package.subdirectory.as_deref(), ..job };
    let bare = Command {
        program: builder.interpreter.executable.clone(),
        args: vec!["-I".to_owned(), "-S".to_owned()],
        env: plain_env("/usr/local/bin:/usr/bin:/bin"),
        cwd: WORK_DIR.into(),
    };
    let spec = spec(builder, bare, builder.interpreter.mounts(), &job, code);
    let (answer, _) = run(builder, package, spec, "inspect").await?;
    let broken = |reason: String| failed(package, &reason, "");
    let inspected: Inspected =
        serde_json::from_str(&answer).map_err(|_| broken("the archive could not be read".to_owned()))?;
    if !inspected.known {
        return Err(broken("there is neither a pyproject.toml nor a setup.py in it".to_owned()));
    }
    BuildSystem::read(inspected.pyproject.as_deref().unwrap_or_default()).map_err(broken)
}

/// Builds. `environment` is where the build requirements are; `complete` says that they are all there.
pub async fn build(
    builder: &Builder<'_>,
    package: &SourcePackage,
    code: &Fetched,
    system: &BuildSystem,
    environment: &crate::environment::Environment,
    complete: bool,
) -> Result<Outcome, EnvironmentError> {
    let job = Job {
        step: "build",
        subdirectory: package.subdirectory.as_deref(),
        backend: &system.backend,
        backend_path: &system.backend_path,
        complete,
    };
    let path = environment.env.get("PATH").map(String::as_str).unwrap_or_default();
    let mut env = plain_env(path);
    let mut mounts = environment.mounts.clone();
    if builder.build_network != crate::sandbox::spec::Network::None {
        env.extend(builder.runner.connection.for_scripts());
        mounts.extend(builder.runner.connection.mounts().iter().cloned());
    }
    let command = Command {
        program: environment.python.clone(),
        args: vec!["-I".to_owned()],
        env,
        cwd: WORK_DIR.into(),
    };
    let spec = spec(builder, command, mounts, &job, code);
    let (answer, file) = run(builder, package, spec, "build").await?;
    let broken = |reason: String| failed(package, &reason, "");
    if let Ok(More { more }) = serde_json::from_str(&answer) {
        return requirements(&more).map(Outcome::More).map_err(broken);
    }
    let about: About = serde_json::from_str(&answer).map_err(|_| broken("it gave no wheel".to_owned()))?;
    let about = about.checked(package).map_err(broken)?;
    Ok(Outcome::Wheel { about: Box::new(about), file })
}

fn spec(
    builder: &Builder<'_>,
    mut command: Command,
    mut mounts: Vec<Mount>,
    job: &Job<'_>,
    code: &Fetched,
) -> SandboxSpec {
    let job_text = serde_json::to_string(job).unwrap_or_default();
    let archive = code.archive.to_string_lossy().into_owned();
    command.args.extend([format!("{WORK_DIR}/{BUILD_FILE}"), archive, job_text]);
    mounts.push(Mount::read_only(&code.archive));
    SandboxSpec {
        role: Role::Build,
        command,
        mounts,
        files: vec![InlineFile { path: BUILD_FILE.into(), content: BUILD.as_bytes().into() }],
        network: builder.build_network,
        named_servers: Vec::new(),
        limits: Limits { open_files: 4096, disk: 2 << 30, ..Limits::default() },
        channel: false,
    }
}

/// Runs the specification; gives the line that describes the rest, and the rest as a file.
async fn run(
    builder: &Builder<'_>,
    package: &SourcePackage,
    spec: SandboxSpec,
    step: &str,
) -> Result<(String, PathBuf), EnvironmentError> {
    let raw = builder.job.path().join(format!("{step}.out"));
    let output = builder.runner.run_into(spec, &raw, LARGEST).await?;
    if output.code != 0 {
        let reason = match output.stderr.lines().rev().find(|line| !line.trim().is_empty()) {
            Some(last) => last.trim().to_owned(),
            None => format!("it ended with exit code {}", output.code),
        };
        return Err(failed(package, &reason, &output.stderr));
    }
    let rest = builder.job.path().join(format!("{step}.whl"));
    let storage =
        |error: std::io::Error| EnvironmentError::storage("a built wheel could not be kept", &error);
    let line = split(&raw, &rest).map_err(storage)?;
    Ok((line, rest))
}

/// The first line, and everything after it in a file of its own.
fn split(raw: &Path, rest: &Path) -> std::io::Result<String> {
    let mut reader = BufReader::new(std::fs::File::open(raw)?);
    let mut line = Vec::new();
    reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)?;
    std::io::copy(&mut reader, &mut std::fs::File::create(rest)?)?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}

fn failed(package: &SourcePackage, reason: &str, stderr: &str) -> EnvironmentError {
    let text = redact(stderr);
    // A build's last lines are what matters.
    let lines: Vec<&str> = text.lines().collect();
    let detail = trim(&lines[lines.len().saturating_sub(20)..].join("\n"));
    EnvironmentError::BuildFailed { package: package.label(), reason: redact(reason), detail }
}

impl BuildSystem {
    /// Reads the `[build-system]` table; without one the package is built as it was before there were such tables.
    fn read(pyproject: &str) -> Result<Self, String> {
        let table: toml::Table =
            toml::from_str(pyproject).map_err(|error| format!("its pyproject.toml: {}", error.message()))?;
        let system = table.get("build-system");
        let strings = |key: &str| -> Option<Vec<String>> {
            let list = system?.get(key)?.as_array()?;
            Some(list.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect())
        };
        let requires = strings("requires").unwrap_or_else(|| vec!["setuptools>=40.8.0".to_owned()]);
        let backend = system.and_then(|system| system.get("build-backend")?.as_str());
        Ok(Self {
            requires: requirements(&requires)?,
            backend: backend.unwrap_or("setuptools.build_meta:__legacy__").to_owned(),
            backend_path: strings("backend-path").unwrap_or_default(),
        })
    }
}

fn requirements(texts: &[String]) -> Result<Vec<Requirement>, String> {
    texts
        .iter()
        .map(|text| match Requirement::parse(text) {
            Ok(requirement) if requirement.url().is_none() => Ok(requirement),
            Ok(_) => {
                Err(format!("it needs {text}, and what comes from an address must be named by the script"))
            }
            Err(error) => Err(error.to_string()),
        })
        .collect()
}

impl About {
    /// Refuses another package than was asked for, names that are more than a file's, and requirements that reach
    /// elsewhere than to an index.
    fn checked(mut self, package: &SourcePackage) -> Result<Self, String> {
        let normal = |name: &str| name.to_lowercase().replace(['_', '.'], "-");
        self.name = normal(&self.name);
        if self.name != package.name {
            return Err(format!("it is called {}", self.name));
        }
        if package.version.as_ref().is_some_and(|version| !same_version(version, &self.version)) {
            return Err(format!("it says that it is version {}", self.version));
        }
        let plain = self.file.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.+!".contains(&byte));
        let stem = self.file.strip_suffix(".whl").filter(|stem| stem.split('-').count() >= 5);
        if !plain || stem.is_none_or(|stem| normal(stem.split('-').next().unwrap_or_default()) != self.name) {
            return Err("its file name is not that of a wheel".to_owned());
        }
        let canonical = requirements(&self.requires)?;
        self.requires = canonical.iter().map(ToString::to_string).collect();
        Ok(self)
    }
}

fn same_version(a: &str, b: &str) -> bool {
    match (a.parse::<pep440_rs::Version>(), b.parse::<pep440_rs::Version>()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::super::origin::Origin;
    use super::*;

    fn about() -> About {
        About {
            file: "my_pkg-1.0-py3-none-any.whl".to_owned(),
            name: "My.Pkg".to_owned(),
            version: "1.0".to_owned(),
            requires: vec!["Six >= 1".to_owned()],
            extras: Vec::new(),
            python: String::new(),
        }
    }

    #[test]
    fn a_wheel_is_the_one_that_was_asked_for_and_reaches_nowhere() {
        let origin = Origin::Git { url: "https://h/r".to_owned(), reference: None };
        let package = SourcePackage {
            name: "my-pkg".to_owned(),
            version: Some("1".to_owned()),
            origin,
            subdirectory: None,
        };
        assert_eq!(about().checked(&package).expect("taken").requires, ["six>=1"]);
        let wrong = [
            About { name: "other".to_owned(), ..about() },
            About { version: "2".to_owned(), ..about() },
            About { file: "../my_pkg-1.0-py3-none-any.whl".to_owned(), ..about() },
            About { file: "six-1.0-py3-none-any.whl".to_owned(), ..about() },
            About { file: "my_pkg.whl".to_owned(), ..about() },
            About { requires: vec!["x @ https://h/x.tar.gz".to_owned()], ..about() },
            About { requires: vec!["x @ file:///etc".to_owned()], ..about() },
            About { requires: vec!["--index-url=x".to_owned()], ..about() },
        ];
        for about in wrong {
            assert!(about.clone().checked(&package).is_err(), "{about:?} was taken");
        }
    }

    #[test]
    fn a_build_system_is_read_or_assumed() {
        let old = BuildSystem::read("").expect("read");
        assert_eq!(old.backend, "setuptools.build_meta:__legacy__");
        let new = BuildSystem::read(
            "[build-system]\nrequires = ['flit_core<4']\nbuild-backend = 'b:c'\nbackend-path = ['.']\n",
        );
        let new = new.expect("read");
        assert_eq!((new.requires[0].as_str(), &new.backend[..]), ("flit-core<4", "b:c"));
        assert!(BuildSystem::read("[build-system]\nrequires = ['x @ file:///etc']\n").is_err());
    }
}
