//! The machine's Python interpreters: which there are, what each is, which one a run gets.

mod choose;
mod index;
mod install;
mod probe;
mod search;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::python::PythonVersion;
use crate::sandbox::spec::Mount;

pub use choose::{Choice, Wanted, choose};
pub use index::InterpreterIndex;
pub(super) use index::is_unchanged;
pub(super) use install::{Installer, SOURCES};
pub(super) use probe::{QUESTION, interpreter_without_mounts};
pub use search::{Candidate, candidates};

/// One interpreter, as it described itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Interpreter {
    /// The real executable, without symbolic links in its path, and never one of a virtual environment.
    pub executable: PathBuf,
    /// Full version: `3.13.0`, `3.15.0rc1`.
    pub version: String,
    /// Major, minor, patch.
    pub numbers: (u8, u8, u8),
    /// Whether it is an alpha, beta or candidate.
    pub prerelease: bool,
    /// Where its library and programs lie.
    pub prefix: PathBuf,
    /// Its standard library.
    pub stdlib: PathBuf,
    /// Paths outside the system's own folders that it needs, without symbolic links.
    pub folders: Vec<PathBuf>,
    /// Changes whenever the executable does.
    pub fingerprint: String,
}

impl Interpreter {
    /// Its version without pre-release part.
    pub fn python_version(&self) -> PythonVersion {
        let (major, minor, patch) = self.numbers;
        PythonVersion { major, minor, patch: Some(patch) }
    }

    /// `python3.13`, as its library folder is called.
    pub fn library_name(&self) -> String {
        format!("python{}.{}", self.numbers.0, self.numbers.1)
    }

    /// What has to be visible, read-only, for it to run.
    pub fn mounts(&self) -> Vec<Mount> {
        self.folders.iter().map(Mount::read_only).collect()
    }

    /// Whether it is the version asked for; a request without a patch takes any.
    pub fn is(&self, version: PythonVersion) -> bool {
        let (major, minor, patch) = self.numbers;
        (major, minor) == (version.major, version.minor) && version.patch.is_none_or(|wanted| wanted == patch)
    }
}

/// Folders that every sandbox has: an interpreter below them needs no mount of its own.
const SYSTEM: [&str; 5] = ["/usr", "/bin", "/lib", "/lib64", "/nix/store"];

fn in_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

/// What of an interpreter has to be mounted. A prefix that holds more than a Python (a home folder, the root) is
/// not shown whole.
fn needed_folders(
    prefix: &Path,
    stdlib: &Path,
    executable: &Path,
    libraries: &[PathBuf],
    private: &[PathBuf],
) -> Vec<PathBuf> {
    let too_wide =
        prefix.components().count() <= 2 || private.iter().any(|folder| folder.starts_with(prefix));
    let own = if too_wide { vec![stdlib.to_owned(), executable.to_owned()] } else { vec![prefix.to_owned()] };
    let mut folders: Vec<PathBuf> = Vec::new();
    let libraries = libraries.iter().filter_map(|library| library.parent()).map(Path::to_owned);
    for path in own.into_iter().chain([stdlib.to_owned(), executable.to_owned()]).chain(libraries) {
        let covered = in_system(&path) || folders.iter().any(|folder| path.starts_with(folder));
        if !covered && !private.iter().any(|folder| folder.starts_with(&path)) {
            folders.push(path);
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needed(prefix: &str, executable: &str, libraries: &[&str]) -> Vec<String> {
        let libraries: Vec<PathBuf> = libraries.iter().map(PathBuf::from).collect();
        let stdlib = Path::new(prefix).join("lib/python3.13");
        let private = [PathBuf::from("/home/me")];
        needed_folders(Path::new(prefix), &stdlib, Path::new(executable), &libraries, &private)
            .iter()
            .map(|path| path.display().to_string())
            .collect()
    }

    #[test]
    fn a_system_interpreter_needs_nothing_and_another_its_prefix() {
        assert!(needed("/usr", "/usr/bin/python3.13", &["/usr/lib/libz.so"]).is_empty());
        assert_eq!(
            needed("/home/me/.pyenv/versions/3.13.0", "/home/me/.pyenv/versions/3.13.0/bin/python3.13", &[]),
            ["/home/me/.pyenv/versions/3.13.0"]
        );
        assert_eq!(
            needed("/opt/py/313", "/opt/py/313/bin/python3.13", &["/opt/lib/libfoo.so"]),
            ["/opt/py/313", "/opt/lib"]
        );
    }

    #[test]
    fn a_home_folder_as_prefix_is_not_shown_whole() {
        assert_eq!(
            needed("/home/me", "/home/me/bin/python3.13", &["/home/me/libx.so"]),
            ["/home/me/lib/python3.13", "/home/me/bin/python3.13"]
        );
        assert_eq!(
            needed("/opt", "/opt/bin/python3.13", &[]),
            ["/opt/lib/python3.13", "/opt/bin/python3.13"]
        );
    }
}
