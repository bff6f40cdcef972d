//! The uv executable: which one is used, and how one is got where there is none.

mod fetch;
mod find;

use std::path::{Path, PathBuf};

use super::data_dir::{DataDir, unique};
use super::failure::EnvironmentError;

pub use find::{Finder, is_script};

/// The oldest uv that writes and installs `pylock.toml` files as they are used here.
pub const MINIMUM: UvVersion = UvVersion(0, 9, 0);

/// A version of uv.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UvVersion(pub u32, pub u32, pub u32);

impl std::fmt::Display for UvVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl UvVersion {
    /// Reads what `uv --version` prints.
    pub fn parse(output: &str) -> Option<Self> {
        let version = output.trim().strip_prefix("uv ")?.split([' ', '-', '+']).next()?;
        let mut numbers = version.split('.').map(|part| part.parse().ok());
        Some(Self(numbers.next()??, numbers.next()??, numbers.next()??))
    }
}

/// A uv that was found and answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uv {
    /// The real executable, without symbolic links in its path.
    pub path: PathBuf,
    /// What it says of itself.
    pub version: UvVersion,
    /// What the user should know of how it was got.
    pub note: Option<String>,
}

impl Uv {
    /// Stands in where no uv is needed because there is nothing to install.
    pub(super) fn unused() -> Self {
        Self { path: PathBuf::new(), version: MINIMUM, note: None }
    }

    /// The same uv in the data folder, for a sandbox that cannot show the place where it was found.
    pub(super) fn copied_to(&self, data: &DataDir) -> Result<Self, EnvironmentError> {
        let folder = data.uv().join(self.version.to_string());
        let path = folder.join("uv");
        let size = |path: &Path| path.metadata().map(|found| found.len());
        let copy = || -> std::io::Result<()> {
            std::fs::create_dir_all(&folder)?;
            if size(&path).ok() != Some(size(&self.path)?) {
                let beside = folder.join(format!("uv-{}", unique()));
                std::fs::copy(&self.path, &beside)?;
                std::fs::rename(&beside, &path)?;
            }
            Ok(())
        };
        copy().map_err(|error| EnvironmentError::storage("uv could not be copied", &error))?;
        Ok(Self { path, ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(UvVersion::parse("uv 0.9.12 (abc 2026-01-01)\n"), Some(UvVersion(0, 9, 12)));
        assert_eq!(UvVersion::parse("uv 1.0.0-rc1"), Some(UvVersion(1, 0, 0)));
        assert_eq!(UvVersion::parse("uvicorn 0.9.12"), None);
    }
}
