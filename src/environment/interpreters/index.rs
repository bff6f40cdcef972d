//! Remembers what was found out about each executable, in memory and in the data folder, so that each is run once.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::super::data_dir::DataDir;
use super::super::files::{fingerprint, write_atomically};
use super::super::host::HostEnv;
use super::probe::{ProbeError, probe};
use super::search::{Candidate, candidates};
use super::{Interpreter, PythonVersion};

/// The machine's interpreters.
#[derive(Debug)]
pub struct InterpreterIndex {
    file: PathBuf,
    managed: PathBuf,
    env: HostEnv,
    private: Vec<PathBuf>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    read: bool,
    entries: HashMap<PathBuf, Entry>,
}

/// What is known of one executable, as long as its fingerprint is the same.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    fingerprint: String,
    interpreter: Option<Interpreter>,
}

impl InterpreterIndex {
    /// An index over the machine and the interpreters in the data folder.
    pub fn new(data: &DataDir, env: &HostEnv) -> Self {
        let mut private: Vec<PathBuf> = env.home().into_iter().chain([data.root().to_owned()]).collect();
        private.extend(["/root", "/home", "/etc"].map(PathBuf::from));
        Self {
            file: data.interpreter_index(),
            managed: data.interpreters(),
            env: env.clone(),
            private,
            known: Mutex::default(),
        }
    }

    /// Interpreters of one minor version, newest patch first.
    pub async fn of_minor(&self, version: PythonVersion) -> Vec<Interpreter> {
        self.look(|candidate| candidate.minor == Some(version.minor)).await
    }

    /// Every interpreter, newest first.
    pub async fn all(&self) -> Vec<Interpreter> {
        self.look(|_| true).await
    }

    async fn look(&self, wanted: impl Fn(&Candidate) -> bool) -> Vec<Interpreter> {
        let mut known = self.known.lock().await;
        if !known.read {
            known.read = true;
            known.entries = read(&self.file).unwrap_or_default();
        }
        let mut changed = false;
        let mut found: Vec<Interpreter> = Vec::new();
        for candidate in
            candidates(&self.env, std::slice::from_ref(&self.managed)).iter().filter(|c| wanted(c))
        {
            let Some(fingerprint) = fingerprint(&candidate.path) else { continue };
            let fresh = known.entries.get(&candidate.path).filter(|entry| entry.fingerprint == fingerprint);
            let entry = if let Some(entry) = fresh {
                entry.clone()
            } else {
                changed = true;
                let entry = self.ask(&candidate.path, fingerprint).await;
                known.entries.insert(candidate.path.clone(), entry.clone());
                entry
            };
            found.extend(
                entry.interpreter.filter(|new| !found.iter().any(|old| old.executable == new.executable)),
            );
        }
        if changed {
            save(&self.file, &known.entries);
        }
        // Stable: among equal versions the order of the search stays.
        found.sort_by_key(|interpreter| std::cmp::Reverse((!interpreter.prerelease, interpreter.numbers)));
        found
    }

    async fn ask(&self, path: &Path, fingerprint: String) -> Entry {
        let interpreter = match probe(path, &fingerprint, &self.private).await {
            Ok(interpreter) => Some(interpreter),
            Err(error @ (ProbeError::Silent(_) | ProbeError::Unsuitable(_))) => {
                tracing::debug!(path = %path.display(), %error, "an interpreter is not used");
                None
            }
        };
        Entry { fingerprint, interpreter }
    }
}

/// Whether the executable is still the one that was asked.
pub(in super::super) fn is_unchanged(interpreter: &Interpreter) -> bool {
    fingerprint(&interpreter.executable).is_some_and(|now| now == interpreter.fingerprint)
}

fn read(file: &Path) -> Option<HashMap<PathBuf, Entry>> {
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}

/// The file only saves time; when it cannot be written the next start asks again.
fn save(file: &Path, entries: &HashMap<PathBuf, Entry>) {
    let result = serde_json::to_vec(entries)
        .map_err(std::io::Error::other)
        .and_then(|text| write_atomically(file, &text));
    if let Err(error) = result {
        tracing::debug!(%error, "the list of interpreters could not be kept");
    }
}
