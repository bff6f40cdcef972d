//! Why there is no environment, in terms that an agent can act on. Pure: it starts nothing and reads nothing.

use std::time::Duration;

use super::conclusion::{Why, short};
use super::redact::redact;
use super::request::PROJECT_NAME;
use super::suggest::meant;

/// Why an environment could not be had. Nothing half-built is left under a final name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentError {
    /// No usable uv on this machine, and it could not be fetched.
    #[error(
        "uv was not found ({tried}) and could not be fetched with pip. Install it (`python3 -m pip install uv`) \
         or name it with --uv-path"
    )]
    NoUv {
        /// Where it was looked for.
        tried: String,
        /// What pip said.
        detail: String,
    },
    /// The uv that was named by the user cannot be used.
    #[error(
        "{path} cannot be used as uv: {reason}. Correct --uv-path, or leave it out to have uv looked for"
    )]
    BadUv {
        /// The path or name as given.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No interpreter that would do.
    #[error("no Python {wanted} on this machine, and it could not be installed. Available: {available}")]
    NoInterpreter {
        /// The version or range that was wanted.
        wanted: String,
        /// Versions that are there, newest first, or `none`.
        available: String,
        /// What uv said about installing it; empty where it was not tried.
        detail: String,
    },
    /// The script's `requires-python` excludes the interpreter that was asked for.
    #[error(
        "the script requires Python {requires}, but Python {chosen} was asked for. Ask for another version or \
         change requires-python"
    )]
    PythonExcluded {
        /// The script's `requires-python`.
        requires: String,
        /// Full version of the interpreter.
        chosen: String,
    },
    /// A requirement or option is refused by policy before anything is contacted.
    #[error("{0}")]
    Refused(String),
    /// The requirements have no solution for this Python.
    #[error("{} (Python {python}): {reason}. {}", .why.lead(), .why.advice())]
    Unsatisfiable {
        /// What kind of contradiction it is.
        why: Why,
        /// Full version of the interpreter.
        python: String,
        /// uv's conclusion in one or two sentences, without a full stop at its end.
        reason: String,
        /// uv's own text, trimmed.
        detail: String,
    },
    /// The package index or a download cannot be reached.
    #[error(
        "the package index could not be reached: {reason}. Check the network, proxy and certificate settings"
    )]
    Unreachable {
        /// The innermost cause.
        reason: String,
        /// uv's own text, trimmed.
        detail: String,
    },
    /// A package was found but could not be unpacked or installed.
    #[error("the dependencies could not be installed: {reason}")]
    Installation {
        /// The first cause.
        reason: String,
        /// uv's own text, trimmed.
        detail: String,
    },
    /// A file is not the one that the index promised.
    #[error(
        "a download is not what the package index promised: {reason}. Nothing of it was installed. Try again, or ask for \
         another version"
    )]
    HashMismatch {
        /// Which one.
        reason: String,
        /// uv's own text, trimmed.
        detail: String,
    },
    /// A package has no wheel, and building is not allowed.
    #[error(
        "{package} has no wheel for Python {python}, and building it from source is switched off ({setting}). Ask for \
         another version of it or for another package"
    )]
    NoWheel {
        /// Its name.
        package: String,
        /// Full version of the interpreter.
        python: String,
        /// What switched building off.
        setting: String,
    },
    /// A package has no wheel, and its build failed.
    #[error("{package} has no wheel here, and building it from source failed: {reason}")]
    BuildFailed {
        /// Its name, and its version where that is known.
        package: String,
        /// The last thing that was said.
        reason: String,
        /// The end of what the build printed.
        detail: String,
    },
    /// A folder cannot be written, or the disk is full.
    #[error("{context}: {reason}. {remedy}")]
    Storage {
        /// What was being done, and where.
        context: String,
        /// The system's answer.
        reason: String,
        /// What to do about it.
        remedy: &'static str,
    },
    /// The call's deadline passed first.
    #[error(
        "preparing the environment did not end within the call's {} s (while {phase}). {}Allow more time with \
         timeout_seconds, or try again: what was downloaded in full is kept", seconds(*.after), about_index(.index)
    )]
    TimedOut {
        /// What was being done.
        phase: String,
        /// Hosts of the package indexes that were needed; empty where none was.
        index: String,
        /// The time that was allowed.
        after: Duration,
    },
    /// The backend's own programs are not there, or not yet.
    #[error("{0}")]
    NotReady(String),
    /// The backend's set of programs has no interpreter that would do.
    #[error(
        "no Python {wanted} in the sandbox's image. Available: {available}. Ask for one of these, or make an image \
         that has it: `image build --python VERSION`"
    )]
    NotInImage {
        /// The version or range that was wanted.
        wanted: String,
        /// Versions that are there, newest first, or `none`.
        available: String,
    },
    /// The sandbox for uv could not be built.
    #[error("uv could not be started in its sandbox: {0}")]
    Sandbox(String),
}

/// Kinds of failure, for whoever maps them to words of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// uv is missing.
    Uv,
    /// No interpreter that would do.
    Interpreter,
    /// Refused by policy.
    Refused,
    /// The requirements have no solution.
    Resolution(Why),
    /// The index cannot be reached.
    Network,
    /// Could not be unpacked.
    Installation,
    /// Not what the index promised.
    HashMismatch,
    /// Disk full, folder not writable.
    Storage,
    /// The deadline passed.
    Timeout,
    /// The sandbox could not be built.
    Sandbox,
}

impl EnvironmentError {
    /// Which kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoUv { .. } | Self::BadUv { .. } => ErrorKind::Uv,
            Self::NoInterpreter { .. } | Self::NotInImage { .. } | Self::PythonExcluded { .. } => {
                ErrorKind::Interpreter
            }
            Self::Refused(_) => ErrorKind::Refused,
            Self::Unsatisfiable { why, .. } => ErrorKind::Resolution(*why),
            Self::NoWheel { .. } => ErrorKind::Resolution(Why::NoWheel),
            Self::Unreachable { .. } => ErrorKind::Network,
            Self::Installation { .. } | Self::BuildFailed { .. } => ErrorKind::Installation,
            Self::HashMismatch { .. } => ErrorKind::HashMismatch,
            Self::Storage { .. } => ErrorKind::Storage,
            Self::TimedOut { .. } => ErrorKind::Timeout,
            Self::Sandbox(_) | Self::NotReady(_) => ErrorKind::Sandbox,
        }
    }

    /// The underlying tool's own words, trimmed and without credentials; empty where there are none.
    pub fn detail(&self) -> &str {
        match self {
            Self::NoUv { detail, .. }
            | Self::NoInterpreter { detail, .. }
            | Self::Unsatisfiable { detail, .. }
            | Self::Unreachable { detail, .. }
            | Self::BuildFailed { detail, .. }
            | Self::HashMismatch { detail, .. }
            | Self::Installation { detail, .. } => detail,
            _ => "",
        }
    }

    /// Adds what may have been meant by names that stand in the reason.
    pub(super) fn with_suggestions<'a>(mut self, names: impl Iterator<Item = &'a str>) -> Self {
        let Self::Unsatisfiable { reason, .. } = &mut self else { return self };
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let words: Vec<String> = reason.split(|c| !is_name(c)).map(str::to_owned).collect();
        for name in names.filter(|name| words.iter().any(|word| word == name)) {
            if let Some(package) = meant(name).filter(|package| !words.iter().any(|word| word == package)) {
                reason.extend([" (for ", name, ": did you mean ", package, "?)"]);
            }
        }
        self
    }

    /// Adds which of the user's certificates are not there, where a connection failed for want of them.
    pub(super) fn with_certificates(mut self, notes: &[String]) -> Self {
        if let Self::Unreachable { reason, .. } = &mut self
            && reason.contains("certificate")
        {
            for note in notes {
                reason.extend([" (", note, ")"]);
            }
        }
        self
    }

    pub(super) fn storage(context: impl Into<String>, error: &std::io::Error) -> Self {
        use std::io::ErrorKind::{AlreadyExists, NotADirectory, NotFound, PermissionDenied};
        let remedy = match error.kind() {
            PermissionDenied | NotADirectory | NotFound | AlreadyExists => LET_IN,
            _ => MAKE_ROOM,
        };
        Self::Storage { context: context.into(), reason: error.to_string(), remedy }
    }
}

/// What helps where a disk is full.
pub(super) const MAKE_ROOM: &str = "Free space or name another folder with --data-dir";

/// What helps where a folder cannot be used.
pub(super) const LET_IN: &str = "Let this user write there, or name another folder with --data-dir";

/// To the nearest second: a call's time is given in whole ones, and some of it has passed before preparing begins.
fn seconds(time: Duration) -> u64 {
    time.saturating_add(Duration::from_millis(500)).as_secs()
}

fn about_index(hosts: &str) -> String {
    if hosts.is_empty() {
        return String::new();
    }
    format!(
        "Where the package index ({hosts}) does not answer, look at the network, proxy and index settings. "
    )
}

/// Which of uv's steps failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Choosing versions.
    Resolve,
    /// Downloading and unpacking.
    Install,
}

/// uv's exit status when requirements have no solution (2 is every other failure).
const NO_SOLUTION: i32 = 1;
/// Lines of uv's text that are kept.
const DETAIL_LINES: usize = 24;
/// Characters of one line that are kept.
const LINE_CHARS: usize = 400;

/// Makes an error of what uv left behind when it failed.
pub(super) fn from_uv(step: Step, python: &str, exit_code: i32, stderr: &str) -> EnvironmentError {
    let text = redact(stderr)
        .replace(&format!("{PROJECT_NAME} depends on"), "you require")
        .replace(PROJECT_NAME, "your script");
    let detail = trim(&text);
    if let Some(error) = storage_error(&text) {
        return error;
    }
    let causes = causes(&text);
    let first = causes.first().cloned().unwrap_or_else(|| headline(&text));
    let last = causes.last().cloned().unwrap_or_else(|| headline(&text));
    if text.contains("error sending request for url") || text.contains("Failed to fetch") {
        return EnvironmentError::Unreachable { reason: bare(&last), detail };
    }
    if let Some(hint) = hints(&text).into_iter().find(|hint| hint.contains("the network was disabled")) {
        return EnvironmentError::Unreachable { reason: bare(&hint), detail };
    }
    match step {
        Step::Resolve if exit_code == NO_SOLUTION => {
            let hint = hints(&text).into_iter().next().map(|hint| format!(". {hint}")).unwrap_or_default();
            EnvironmentError::Unsatisfiable {
                why: Why::of(&first),
                python: python.to_owned(),
                reason: format!("{}{hint}", short(&first)),
                detail,
            }
        }
        Step::Install if first.starts_with("Hash mismatch") => {
            EnvironmentError::HashMismatch { reason: bare(&first), detail }
        }
        _ => EnvironmentError::Installation { reason: bare(&first), detail },
    }
}

/// Packages of which uv says that there is only source code. The names are all that is taken from its text: where it
/// words its hint in another way some day, the ordinary error is given.
pub(super) fn names_without_wheels(exit_code: i32, stderr: &str) -> Vec<String> {
    if exit_code != NO_SOLUTION {
        return Vec::new();
    }
    let hints = hints(stderr).into_iter().filter(|hint| hint.starts_with("Wheels are required for"));
    let names = hints.filter_map(|hint| Some(hint.split('`').nth(1)?.to_owned()));
    names.filter(|name| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))).collect()
}

/// Error numbers are the same in every language, unlike the system's words: ENOSPC, EDQUOT, EROFS.
fn storage_error(text: &str) -> Option<EnvironmentError> {
    let line = text.lines().find(|line| {
        ["(os error 28)", "(os error 122)", "(os error 30)"].iter().any(|code| line.contains(code))
    })?;
    Some(EnvironmentError::Storage {
        context: "the environment could not be written".to_owned(),
        reason: bare(line.trim().trim_start_matches("cause:").trim()),
        remedy: MAKE_ROOM,
    })
}

fn bare(text: &str) -> String {
    text.trim().trim_end_matches('.').to_owned()
}

fn headline(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("uv gave no reason");
    line.trim_start_matches("error:").trim().to_owned()
}

/// The chain of causes, each with its continuation lines joined.
fn causes(text: &str) -> Vec<String> {
    sections(text, &["cause:", "Caused by:", "╰─▶", "├─▶"])
}

fn hints(text: &str) -> Vec<String> {
    sections(text, &["hint:"])
}

fn sections(text: &str, openers: &[&str]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        let trimmed = line.trim().trim_start_matches('│').trim();
        let starts = openers.iter().find_map(|opener| line.trim().strip_prefix(opener));
        if let Some(rest) = starts {
            found.push(rest.trim().to_owned());
            open = true;
        } else if trimmed.is_empty() || trimmed.starts_with("hint:") || trimmed.starts_with("error:") {
            open = false;
        } else if let (true, Some(last)) = (open, found.last_mut()) {
            last.push(' ');
            last.push_str(trimmed);
        }
    }
    found
}

/// uv's text, bounded in lines and characters.
pub(super) fn trim(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let mut kept: Vec<String> =
        lines.iter().take(DETAIL_LINES).map(|line| line.chars().take(LINE_CHARS).collect()).collect();
    if lines.len() > DETAIL_LINES {
        kept.push(format!("... {} more lines", lines.len() - DETAIL_LINES));
    }
    kept.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_names_both_sides() {
        let text = "error: No solution found when resolving dependencies\n  cause: Because you require \
                    packaging<24 and packaging>=24, we can conclude that your requirements are unsatisfiable.\n";
        let error = from_uv(Step::Resolve, "3.13.0", 1, text);
        assert_eq!(error.kind(), ErrorKind::Resolution(Why::Conflict));
        let message = error.to_string();
        assert!(message.contains("packaging<24") && message.contains("packaging>=24"), "{message}");
    }

    #[test]
    fn a_cause_over_several_lines_is_one_sentence_and_its_hint_follows() {
        let text = "error: No solution found\n  cause: Because a has\n         no wheels.\n\nhint: Wheels are needed\n";
        let error = from_uv(Step::Resolve, "3.13.0", 1, text);
        assert!(error.to_string().contains(": a has no wheels. Wheels are needed. "), "{error}");
    }

    #[test]
    fn a_dead_network_is_told_from_a_conflict_and_keeps_no_password() {
        let text = "error: Request failed after 3 retries\n  cause: Failed to fetch: https://u:secret@h/simple/six/\n  \
                    cause: Connection refused (os error 111)\n";
        let error = from_uv(Step::Resolve, "3.13.0", 2, text);
        assert_eq!(error.kind(), ErrorKind::Network);
        assert!(error.to_string().contains("Connection refused"));
        assert!(!error.detail().contains("secret"), "{}", error.detail());
    }

    #[test]
    fn a_full_disk_is_a_matter_of_storage() {
        let text =
            "error: Failed to install: six\n  cause: failed to copy\n  cause: Platz voll (os error 28)\n";
        assert_eq!(from_uv(Step::Install, "3.13.0", 2, text).kind(), ErrorKind::Storage);
    }

    #[test]
    fn long_texts_are_cut() {
        let text = "line\n".repeat(100);
        assert!(trim(&text).ends_with("... 76 more lines"));
    }
}
