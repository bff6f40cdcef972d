//! Fetches source code, in the sandbox of the preparing stage: it has the network, and of the user's credentials the one
//! pair that belongs to the address. Nothing of what is fetched runs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::origin::{Origin, SourcePackage};
use crate::environment::build::Builder;
use crate::environment::failure::{EnvironmentError, trim};
use crate::environment::redact::redact;
use crate::sandbox::spec::Command;

/// Runs in the interpreter for which the package is meant, without `site`.
const FETCH: &str = include_str!("fetch.py");

/// Source code of a package with its data takes some megabytes; a repository with its history some hundreds.
const LARGEST: u64 = 1 << 30;

/// Source code in the job folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// An archive of it.
    pub archive: PathBuf,
    /// Hash of the archive or of the commit: the same identity is the same code.
    pub identity: String,
}

#[derive(Serialize)]
struct Job<'a> {
    git: bool,
    url: &'a str,
    sha256: Option<&'a str>,
    reference: Option<&'a str>,
    limit: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer {
    identity: Option<String>,
    failed: Option<String>,
    network: bool,
    mismatch: bool,
}

/// Fetches the code of one package; `number` tells the packages of one job apart.
pub async fn fetch(
    builder: &Builder<'_>,
    package: &SourcePackage,
    number: usize,
) -> Result<Fetched, EnvironmentError> {
    let folder = builder.job.folder(&format!("fetch-{number}"))?;
    builder.job.write(&format!("fetch-{number}/fetch.json"), &job(package))?;
    let mut env = builder.runner.connection.for_uv();
    env.insert("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
    env.insert("HOME".to_owned(), folder.to_string_lossy().into_owned());
    if let Origin::Archive { url, .. } = &package.origin
        && let Some((user, password)) = builder.runner.index_credentials(url).await
    {
        env.extend([("FETCH_USER".to_owned(), user), ("FETCH_PASSWORD".to_owned(), password)]);
    }
    let command = Command {
        program: builder.interpreter.executable.clone(),
        args: ["-I", "-S", "-c", FETCH].map(str::to_owned).to_vec(),
        env,
        cwd: folder.clone(),
    };
    let output = builder.runner.prepare(command, builder.interpreter.mounts(), &folder).await?;
    let answer: Answer = serde_json::from_str(output.stdout.trim()).unwrap_or_default();
    match answer {
        Answer { identity: Some(identity), .. } => Ok(Fetched { archive: folder.join("source"), identity }),
        Answer { failed, network, mismatch, .. } => {
            let reason = failed.unwrap_or_else(|| format!("fetching ended with exit code {}", output.code));
            let reason = redact(&reason);
            let reason = format!("{} from {}: {reason}", package.label(), redact(&package.address()));
            let detail = trim(&redact(&output.stderr));
            Err(match (network, mismatch) {
                (true, _) => EnvironmentError::Unreachable { reason, detail },
                (_, true) => EnvironmentError::HashMismatch { reason, detail },
                _ => EnvironmentError::Installation { reason, detail },
            })
        }
    }
}

fn job(package: &SourcePackage) -> String {
    let job = match &package.origin {
        Origin::Archive { url, sha256 } => {
            Job { git: false, url, sha256: sha256.as_deref(), reference: None, limit: LARGEST }
        }
        Origin::Git { url, reference } => {
            Job { git: true, url, sha256: None, reference: reference.as_deref(), limit: LARGEST }
        }
    };
    serde_json::to_string(&job).unwrap_or_default()
}

/// Variables of the sandbox in which code of a package runs: nothing of the user's.
pub(super) fn plain_env(path: &str) -> BTreeMap<String, String> {
    [
        ("PATH", path),
        ("HOME", crate::sandbox::spec::HOME_DIR),
        ("TMPDIR", "/tmp"),
        ("LANG", "C.UTF-8"),
        ("PYTHONDONTWRITEBYTECODE", "1"),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect()
}
