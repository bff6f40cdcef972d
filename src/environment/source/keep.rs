//! Wheels that were built, each in a folder of the data folder under the key of what it was built from. Written beside
//! and renamed into place; removed when they have not been used for a while.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::origin::SourcePackage;
use super::wheel::About;
use crate::environment::files::{Folders, remove_tree, seal, write_atomically};
use crate::environment::redact::percent_encode;

/// A wheel that was not used for so long goes: its environments have copies.
const KEPT_FOR: Duration = Duration::from_hours(24 * 14);

/// A wheel that was built, in the data folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Built {
    pub(super) about: About,
    /// Folder that holds the wheel and nothing else that matters.
    #[serde(skip)]
    pub(super) home: PathBuf,
    /// Hash of the wheel.
    pub(super) sha256: String,
}

impl Built {
    pub(super) fn wheel(&self) -> PathBuf {
        self.home.join(&self.about.file)
    }

    pub(super) fn address(&self) -> String {
        format!("file://{}", percent_encode(&self.wheel().to_string_lossy()))
    }

    pub(super) fn is(&self, package: &SourcePackage) -> bool {
        self.about.name == package.name && package.version.as_ref() == Some(&self.about.version)
    }
}

const RECORD: &str = "built.json";

/// What is kept there, where it is whole.
pub(super) fn kept(home: &Path) -> Option<Built> {
    let built: Built = serde_json::from_slice(&std::fs::read(home.join(RECORD)).ok()?).ok()?;
    let built = Built { home: home.to_owned(), ..built };
    // Its age is when it was used last.
    let _ = std::fs::File::open(home).and_then(|folder| folder.set_modified(std::time::SystemTime::now()));
    built.wheel().is_file().then_some(built)
}

/// Moves a wheel to its place; whoever comes second keeps what is there.
pub(super) fn keep(home: &Path, about: About, file: &Path) -> std::io::Result<Built> {
    let beside = home.with_extension(crate::environment::data_dir::unique());
    std::fs::create_dir_all(&beside)?;
    let sha256 = hash(file)?;
    let built = Built { home: home.to_owned(), sha256, about };
    let placed = std::fs::rename(file, beside.join(&built.about.file))
        .and_then(|()| write_atomically(&beside.join(RECORD), &serde_json::to_vec(&built)?))
        .and_then(|()| seal(&beside, Folders::Open))
        .and_then(|_| match std::fs::rename(&beside, home) {
            Err(error) if kept(home).is_none() => Err(error),
            _ => Ok(()),
        });
    remove_tree(&beside);
    placed?;
    kept(home).ok_or_else(|| std::io::Error::other("it was removed meanwhile"))
}

fn hash(file: &Path) -> std::io::Result<String> {
    use sha2::Digest;
    let mut hash = sha2::Sha256::new();
    std::io::copy(&mut std::fs::File::open(file)?, &mut hash)?;
    Ok(crate::environment::index::hex(&hash.finalize()))
}

/// Removes what has not been used for long.
pub(in crate::environment) fn sweep(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let used = entry.metadata().and_then(|meta| meta.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
        if SystemTime::now().duration_since(used).is_ok_and(|age| age > KEPT_FOR) {
            remove_tree(&entry.path());
        }
    }
}
