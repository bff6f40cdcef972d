//! Gets the interpreter that a request wants: remembered, found on the machine, or installed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::failure::EnvironmentError;
use super::interpreters::{Choice, Installer, Interpreter, Wanted, choose, is_unchanged};
use super::progress::Reporter;
use super::python::PythonVersion;
use super::service::Environments;

/// How long a version is not tried again after it could not be installed and another one served.
const RETRY_AFTER: Duration = Duration::from_mins(10);
/// At most this long for installing the default version while another one could serve.
const PATIENCE: Duration = Duration::from_secs(15);

/// An interpreter, and a note where it is not the obvious one.
type Chosen = (Interpreter, Option<String>);

/// A choice, and when it was made where it is not to be kept for good.
type Remembered = (Chosen, Option<Instant>);

/// How long another interpreter stands in for the default one before it is looked for again.
const SUBSTITUTE_LASTS: Duration = Duration::from_mins(1);

/// What was chosen before.
#[derive(Debug, Default)]
pub(super) struct Selection {
    chosen: Mutex<HashMap<String, Remembered>>,
}

impl Environments {
    /// The interpreter, and a note where it is not the obvious one.
    pub(super) async fn select(
        &self,
        wanted: &Wanted,
        deadline: Instant,
        reporter: &Reporter,
    ) -> Result<Chosen, EnvironmentError> {
        if let Some(volumes) = self.volumes() {
            return self.select_inside(volumes, wanted, reporter).await;
        }
        let selection = &self.0.selection;
        let key = format!("{wanted:?}");
        let before = selection.chosen.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some((chosen, since)) = before
            && is_unchanged(&chosen.0)
            && since.is_none_or(|since| since.elapsed() < SUBSTITUTE_LASTS)
        {
            return Ok(chosen);
        }
        let (remembered, is_new) = match self.decide(wanted).await? {
            Choice::Take(interpreter, note) => (((interpreter, note), None), false),
            Choice::Install(request) => ((self.install(wanted, &request, reporter).await?, None), true),
            Choice::InstallOr(request, other) => {
                match self.try_install(wanted, &request, deadline, reporter).await {
                    Some(chosen) => ((chosen, None), true),
                    None => (((other.clone(), Some(substitute(&other))), Some(Instant::now())), false),
                }
            }
        };
        selection.chosen.lock().unwrap_or_else(PoisonError::into_inner).insert(key, remembered.clone());
        let (interpreter, note) = remembered.0;
        self.compile_library_later(&interpreter);
        // Told once; later calls find it on the machine.
        let note = if is_new { Some(installed(&interpreter, wanted)) } else { note };
        Ok((interpreter, note))
    }

    /// Asks as few executables as will do: first those of the likely version, then all.
    async fn decide(&self, wanted: &Wanted) -> Result<Choice, EnvironmentError> {
        let likely = wanted.version.unwrap_or(PythonVersion::DEFAULT);
        let few = self.reachable(self.0.interpreters.of_minor(likely).await);
        if let Ok(choice @ Choice::Take(_, None)) = choose(wanted, &few) {
            return Ok(choice);
        }
        choose(wanted, &self.reachable(self.0.interpreters.all().await))
    }

    /// Version and path of every interpreter of this machine that a script can get, newest first. None where sandboxes
    /// see nothing of this machine and bring their own.
    pub async fn pythons(&self) -> Vec<(String, PathBuf)> {
        if self.volumes().is_some() {
            return Vec::new();
        }
        let all = self.reachable(self.0.interpreters.all().await);
        all.into_iter().map(|interpreter| (interpreter.version, interpreter.executable)).collect()
    }

    /// Those that the sandbox can show to a script.
    fn reachable(&self, mut interpreters: Vec<Interpreter>) -> Vec<Interpreter> {
        let sandbox = &self.0.runner.sandbox;
        interpreters.retain(|interpreter| {
            sandbox.reaches(&interpreter.executable)
                && interpreter.folders.iter().all(|folder| sandbox.reaches(folder))
        });
        interpreters
    }

    async fn install(
        &self,
        wanted: &Wanted,
        request: &str,
        reporter: &Reporter,
    ) -> Result<Chosen, EnvironmentError> {
        reporter.phase(&format!("installing Python {request}"), 0, 0);
        let missing = |detail: String, available: &[Interpreter]| EnvironmentError::NoInterpreter {
            wanted: request.to_owned(),
            available: list(available),
            detail,
        };
        let uv = match self.uv().await {
            Ok(uv) => uv,
            Err(error) => {
                return Err(missing(error.to_string(), &self.0.interpreters.all().await));
            }
        };
        let inner = &self.0;
        let installer = Installer { data: &inner.data, env: &inner.env, runner: &inner.runner, uv };
        let turn = installer.turn().await?;
        // Another call, or another server, may have installed it meanwhile.
        let available = self.reachable(inner.interpreters.all().await);
        if let Ok(Choice::Take(interpreter, note)) = choose(wanted, &available) {
            return Ok((interpreter, note));
        }
        let outcome = installer.install(request, &turn).await;
        let available = self.reachable(inner.interpreters.all().await);
        match outcome {
            Ok(()) => match choose(wanted, &available)? {
                Choice::Take(interpreter, note) => Ok((interpreter, note)),
                Choice::Install(_) | Choice::InstallOr(..) => {
                    Err(missing("what uv installed does not answer".to_owned(), &available))
                }
            },
            Err(failure) => failure.into_result(|detail| missing(detail, &available)),
        }
    }

    /// Installs the default version while another one could serve. Where that failed before, in this process or
    /// another, nobody waits for it again: it is tried in the background now and then.
    async fn try_install(
        &self,
        wanted: &Wanted,
        request: &str,
        deadline: Instant,
        reporter: &Reporter,
    ) -> Option<Chosen> {
        let failed = Failed::new(&self.0.data.interpreters(), request);
        if let Some(age) = failed.age() {
            if age >= RETRY_AFTER {
                failed.note();
                let (this, wanted, request) = (self.clone(), wanted.clone(), request.to_owned());
                tokio::spawn(
                    async move { this.attempt(&wanted, &request, &failed, &Reporter::default()).await },
                );
            }
            return None;
        }
        let half = deadline.saturating_duration_since(Instant::now()) / 2;
        let attempt = self.attempt(wanted, request, &failed, reporter);
        if let Ok(result) = tokio::time::timeout(half.min(PATIENCE), attempt).await {
            return result;
        }
        tracing::info!("the default Python could not be installed in time");
        failed.note();
        None
    }

    async fn attempt(
        &self,
        wanted: &Wanted,
        request: &str,
        failed: &Failed,
        reporter: &Reporter,
    ) -> Option<Chosen> {
        match self.install(wanted, request, reporter).await {
            Ok(chosen) => {
                failed.forget();
                Some(chosen)
            }
            Err(error) => {
                tracing::info!(%error, detail = error.detail(), "the default Python was not installed");
                failed.note();
                None
            }
        }
    }
}

/// A file whose age tells when a version could last not be installed.
#[derive(Debug)]
struct Failed(PathBuf);

impl Failed {
    fn new(folder: &Path, request: &str) -> Self {
        Self(folder.join(format!(".unavailable-{request}")))
    }

    fn age(&self) -> Option<Duration> {
        let noted = self.0.metadata().ok()?.modified().ok()?;
        Some(SystemTime::now().duration_since(noted).unwrap_or_default())
    }

    fn note(&self) {
        let _ = std::fs::write(&self.0, b"");
    }

    fn forget(&self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn substitute(interpreter: &Interpreter) -> String {
    format!(
        "Python {} is used: {} is not on this machine and could not be installed",
        interpreter.version,
        PythonVersion::DEFAULT
    )
}

fn installed(interpreter: &Interpreter, wanted: &Wanted) -> String {
    let version = &interpreter.version;
    match (wanted.version, &wanted.requires) {
        (Some(asked), _) => format!("Python {version} was installed: {asked} was asked for"),
        (None, Some(requires)) => {
            format!("Python {version} was installed because of requires-python {requires}")
        }
        (None, None) => format!("Python {version} was installed: it is the default, and was not there"),
    }
}

fn list(available: &[Interpreter]) -> String {
    let versions: Vec<&str> = available.iter().map(|interpreter| interpreter.version.as_str()).collect();
    if versions.is_empty() { "none".to_owned() } else { versions.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_remembered_across_processes_until_it_is_forgotten() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let failed = Failed::new(place.path(), "3.13");
        assert_eq!(failed.age(), None);
        failed.note();
        assert!(Failed::new(place.path(), "3.13").age().is_some_and(|age| age < RETRY_AFTER));
        assert_eq!(Failed::new(place.path(), "3.14").age(), None);
        failed.forget();
        assert_eq!(failed.age(), None);
    }
}
