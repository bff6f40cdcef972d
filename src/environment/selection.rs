//! Gets the interpreter that a request wants: remembered, found on the machine, or installed.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

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

/// What was chosen before.
#[derive(Debug, Default)]
pub(super) struct Selection {
    chosen: Mutex<HashMap<String, (Interpreter, Option<String>)>>,
    failed: Mutex<Option<Instant>>,
}

type Chosen = (Interpreter, Option<String>);

impl Environments {
    /// The interpreter, and a note where it is not the obvious one.
    pub(super) async fn select(
        &self,
        wanted: &Wanted,
        deadline: Instant,
        reporter: &Reporter,
    ) -> Result<Chosen, EnvironmentError> {
        let selection = &self.0.selection;
        let key = format!("{wanted:?}");
        let before = selection.chosen.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(chosen) = before.filter(|(interpreter, _)| is_unchanged(interpreter)) {
            return Ok(chosen);
        }
        let chosen = match self.decide(wanted).await? {
            Choice::Take(interpreter, note) => (interpreter, note),
            Choice::Install(request) => (self.install(wanted, &request, reporter).await?, None),
            Choice::InstallOr(request, other) => {
                match self.try_install(wanted, &request, deadline, reporter).await {
                    Some(interpreter) => (interpreter, None),
                    // Not remembered: it is tried again later.
                    None => return Ok((other.clone(), Some(substitute(&other)))),
                }
            }
        };
        selection.chosen.lock().unwrap_or_else(PoisonError::into_inner).insert(key, chosen.clone());
        Ok(chosen)
    }

    /// Asks as few executables as will do: first those of the likely version, then all.
    async fn decide(&self, wanted: &Wanted) -> Result<Choice, EnvironmentError> {
        let likely = wanted.version.unwrap_or(PythonVersion::DEFAULT);
        let few = self.0.interpreters.of_minor(likely).await;
        if let Ok(choice @ Choice::Take(_, None)) = choose(wanted, &few) {
            return Ok(choice);
        }
        choose(wanted, &self.0.interpreters.all().await)
    }

    async fn install(
        &self,
        wanted: &Wanted,
        request: &str,
        reporter: &Reporter,
    ) -> Result<Interpreter, EnvironmentError> {
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
        let outcome = installer.install(request).await;
        let available = inner.interpreters.all().await;
        match outcome {
            Ok(()) => match choose(wanted, &available)? {
                Choice::Take(interpreter, _) => {
                    self.compile_library_later(interpreter.clone());
                    Ok(interpreter)
                }
                Choice::Install(_) | Choice::InstallOr(..) => {
                    Err(missing("what uv installed does not answer".to_owned(), &available))
                }
            },
            Err(failure) => failure.into_result(|detail| missing(detail, &available)),
        }
    }

    async fn try_install(
        &self,
        wanted: &Wanted,
        request: &str,
        deadline: Instant,
        reporter: &Reporter,
    ) -> Option<Interpreter> {
        let failed = &self.0.selection.failed;
        let recently = failed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some_and(|at| at.elapsed() < RETRY_AFTER);
        if recently {
            return None;
        }
        let half = deadline.saturating_duration_since(Instant::now()) / 2;
        let attempt = tokio::time::timeout(half.min(PATIENCE), self.install(wanted, request, reporter)).await;
        match attempt {
            Ok(Ok(interpreter)) => return Some(interpreter),
            Ok(Err(error)) => {
                tracing::info!(%error, detail = error.detail(), "the default Python was not installed");
            }
            Err(_) => tracing::info!("the default Python could not be installed in time"),
        }
        *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        None
    }
}

fn substitute(interpreter: &Interpreter) -> String {
    format!(
        "Python {} is used: {} is not on this machine and could not be installed",
        interpreter.version,
        PythonVersion::DEFAULT
    )
}

fn list(available: &[Interpreter]) -> String {
    let versions: Vec<&str> = available.iter().map(|interpreter| interpreter.version.as_str()).collect();
    if versions.is_empty() { "none".to_owned() } else { versions.join(", ") }
}
