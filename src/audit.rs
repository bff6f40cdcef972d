//! The audit log: a line of JSON for every call, for whoever has to know later what was run, for whom, and how it ended.
//!
//! Invariants: a call that was taken has its line, also one that was cancelled or dropped; a line that could not be
//! written is told to the client and in the log. Scripts stand in it by their hash, unless their text was asked for.

mod record;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Instant, SystemTime};

use serde_json::{Map, Value};

use crate::execution::{ExecutionError, ExecutionReport};
use crate::sandbox::{Tier, spec::Limits};
use record::{Bounds, LONGEST_NAME, Record};

pub use record::Caller;

/// What of a script is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scripts {
    /// Its SHA-256.
    Hash,
    /// The text as well.
    Text,
}

/// Where the log goes and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditSettings {
    /// The file. Lines are appended to it; it is made for its owner alone.
    pub file: PathBuf,
    /// What of scripts it holds.
    pub scripts: Scripts,
}

/// Why there is no log, or no line.
#[derive(Debug, thiserror::Error)]
#[error("the audit log {} cannot be written: {source}", path.display())]
pub struct AuditError {
    path: PathBuf,
    source: io::Error,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was answered.
    Answered,
    /// It was answered with an error.
    Failed,
    /// Its client took it back.
    Cancelled,
    /// The server ended, or the client went, before it was answered.
    Dropped,
}

/// The log. Several processes may write to the same file.
#[derive(Debug)]
pub struct AuditLog {
    settings: AuditSettings,
    file: Mutex<File>,
    limits: Limits,
    tier: OnceLock<Tier>,
}

impl AuditLog {
    /// Opens the file for appending, and makes it where there is none.
    pub fn open(settings: AuditSettings, limits: Limits) -> Result<Arc<Self>, AuditError> {
        match open(&settings.file) {
            Ok(file) => {
                Ok(Arc::new(Self { settings, file: Mutex::new(file), limits, tier: OnceLock::new() }))
            }
            Err(source) => Err(AuditError { path: settings.file, source }),
        }
    }

    /// What the sandbox of this process promises, once that is known.
    pub fn set_tier(&self, tier: Tier) {
        // It is chosen once: a second time it is the same.
        let _same = self.tier.set(tier);
    }

    /// One write, so that lines of several processes do not mix.
    fn append(&self, record: &Record) -> Result<(), AuditError> {
        let failed = |source| AuditError { path: self.settings.file.clone(), source };
        let mut line = serde_json::to_vec(record).map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        match file.write(&line).map_err(failed)? {
            written if written == line.len() => Ok(()),
            _ => {
                // The beginning of a line must not become the beginning of the next.
                let _closed = file.write(b"\n");
                Err(failed(io::Error::from(io::ErrorKind::StorageFull)))
            }
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    // A pipe without a reader would hold the server up.
    if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// The line of one call, written at its end. Without a log it does nothing.
#[derive(Debug)]
pub struct Entry(Option<Open>);

#[derive(Debug)]
struct Open {
    log: Arc<AuditLog>,
    started: Instant,
    record: Mutex<Record>,
}

impl Entry {
    /// Begins the line of a call.
    pub fn begin(log: Option<&Arc<AuditLog>>, tool: &str, caller: Caller) -> Self {
        Self(log.map(|log| Open {
            log: Arc::clone(log),
            started: Instant::now(),
            record: Mutex::new(Record::new(tool, caller, SystemTime::now())),
        }))
    }

    /// What was asked for, from the arguments of any tool.
    pub fn arguments(&self, arguments: &Map<String, Value>) {
        let text = |name| arguments.get(name).and_then(Value::as_str);
        if let Some(session) = text("session_id") {
            self.session(session);
        }
        let names = ["dependencies", "package_name"].into_iter().find_map(|name| arguments.get(name));
        let dependencies = match names {
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            Some(Value::String(name)) => vec![name.clone()],
            _ => Vec::new(),
        };
        match (text("script"), text("code")) {
            (Some(script), _) => self.script(script, dependencies),
            (None, Some(code)) => self.note(|record, scripts| record.script(code, scripts)),
            (None, None) => self.note(|record, _| record.dependencies = dependencies),
        }
    }

    /// The stateful sandbox that a call is about, as far as names go.
    pub fn session(&self, id: &str) {
        self.note(|record, _| record.session = Some(id.chars().take(LONGEST_NAME).collect()));
    }

    /// A script, with requirements from outside it.
    pub fn script(&self, script: &str, dependencies: Vec<String>) {
        self.note(|record, scripts| {
            record.script(script, scripts);
            let merged = crate::script::read(script, &dependencies).merged;
            let merged = merged.iter().map(ToString::to_string).collect::<Vec<_>>();
            record.dependencies = if merged.is_empty() { dependencies } else { merged };
        });
    }

    /// The environment that a run uses.
    pub fn environment(&self, key: &str) {
        self.note(|record, _| record.environment = Some(key.to_owned()));
    }

    /// The exit code of a run.
    pub fn exit(&self, code: i32) {
        self.note(|record, _| record.exit = Some(code));
    }

    /// What kept a run from its end, in a word.
    pub fn failure(&self, word: impl serde::Serialize) {
        self.note(|record, _| record.failure = serde_json::to_value(word).ok());
    }

    /// What came of a run.
    pub fn run(&self, result: &Result<ExecutionReport, ExecutionError>) {
        match result {
            Ok(report) => {
                self.environment(&report.environment);
                self.exit(report.status.code());
                if report.timed_out {
                    self.failure("timeout");
                }
            }
            Err(error) => self.failure(error.kind),
        }
    }

    /// Writes the line.
    pub fn end(mut self, outcome: Outcome) -> Result<(), AuditError> {
        self.0.take().map_or(Ok(()), |open| open.write(outcome))
    }

    fn note(&self, change: impl FnOnce(&mut Record, Scripts)) {
        if let Some(open) = &self.0 {
            let mut record = open.record.lock().unwrap_or_else(PoisonError::into_inner);
            change(&mut record, open.log.settings.scripts);
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(open) = self.0.take()
            && let Err(error) = open.write(Outcome::Dropped)
        {
            tracing::error!("{error}");
        }
    }
}

impl Open {
    fn write(self, outcome: Outcome) -> Result<(), AuditError> {
        let mut record = self.record.into_inner().unwrap_or_else(PoisonError::into_inner);
        record.outcome = Some(outcome);
        record.duration_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        record.tier = self.log.tier.get().copied();
        record.limits = Some(Bounds::from(&self.log.limits));
        self.log.append(&record)
    }
}

#[cfg(test)]
mod tests;
