//! Failures of the inner rooms as failures of a run: which kind, in which words.

use std::time::Duration;

use super::report::{ExecutionError, FailureKind};
use super::run::RunError;
use crate::environment::{EnvironmentError, ErrorKind, Why};
use crate::sandbox::StartError;
use crate::sandbox::facts::Refusal;
use crate::script::{Analysis, ProblemKind};

fn error(kind: FailureKind, message: String, notes: &[String]) -> ExecutionError {
    ExecutionError { kind, message, detail: String::new(), notes: notes.to_vec() }
}

/// The script or its metadata is not valid: every problem, each with its line.
pub fn invalid_script(analysis: &Analysis) -> ExecutionError {
    let problems: Vec<String> = analysis.errors().map(ToString::to_string).collect();
    let all = |wanted: ProblemKind| analysis.errors().all(|problem| problem.kind == wanted);
    let kind = if all(ProblemKind::RefusedSetting) || all(ProblemKind::Requirement) {
        FailureKind::RefusedRequirement
    } else if all(ProblemKind::Conflict) {
        FailureKind::Conflict
    } else {
        FailureKind::InvalidScript
    };
    error(kind, problems.join("\n"), &[])
}

/// The environment could not be had.
pub fn environment(failed: &EnvironmentError, notes: &[String]) -> ExecutionError {
    let kind = match failed.kind() {
        ErrorKind::Uv => FailureKind::Uv,
        ErrorKind::Interpreter => FailureKind::Interpreter,
        ErrorKind::Refused => FailureKind::RefusedRequirement,
        ErrorKind::Resolution(why) => resolution(why),
        ErrorKind::HashMismatch => FailureKind::HashMismatch,
        ErrorKind::Network => FailureKind::Network,
        ErrorKind::Installation => FailureKind::Installation,
        ErrorKind::Storage => FailureKind::Storage,
        ErrorKind::Timeout => FailureKind::Timeout,
        ErrorKind::Sandbox => FailureKind::Sandbox,
    };
    ExecutionError { detail: failed.detail().to_owned(), ..error(kind, failed.to_string(), notes) }
}

fn resolution(why: Why) -> FailureKind {
    match why {
        Why::NoPackage => FailureKind::NoSuchPackage,
        Why::NoVersion => FailureKind::NoSuchVersion,
        Why::WrongPython => FailureKind::WrongPython,
        Why::NoWheel => FailureKind::NoWheel,
        Why::Yanked => FailureKind::Yanked,
        Why::Conflict => FailureKind::Conflict,
        Why::Other => FailureKind::Resolution,
    }
}

/// The backend cannot be used on this machine.
pub fn refused(refusal: &Refusal) -> ExecutionError {
    error(FailureKind::Sandbox, format!("{}. {}", refusal.reason, refusal.remedy), &[])
}

/// The sandbox did not start, or its end cannot be told.
pub fn run(failed: RunError, timeout: Duration, notes: &[String]) -> ExecutionError {
    match failed {
        RunError::Late => error(
            FailureKind::Timeout,
            format!("the {} seconds were up before the script was started", timeout.as_secs()),
            notes,
        ),
        RunError::Start(StartError::Stage { stage, detail, .. }) => error(
            FailureKind::Sandbox,
            format!("the sandbox could not be built, so nothing was run: {stage}: {detail}"),
            notes,
        ),
        other => error(FailureKind::Sandbox, other.to_string(), notes),
    }
}

/// Too many calls wait already.
pub fn busy(places: usize, queue: usize) -> ExecutionError {
    let message = format!("busy: {places} runs and {queue} waiting calls already; try again in a moment");
    error(FailureKind::Busy, message, &[])
}
