//! Packages that come to a sandbox after it was started: a folder which it sees read-only, and into which environments
//! are put from outside.
//!
//! What is put there are hard links to the store's files, as installers make them: no second copy, and nothing of other
//! environments is visible.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::failure::EnvironmentError;
use super::job::JobFolder;
use super::{Environment, Environments};

/// A folder of its own for one sandbox. It is removed when dropped, and what a killed server left is removed by the next
/// one.
#[derive(Debug)]
pub struct PackageFolder {
    folder: JobFolder,
    count: u32,
}

impl Environments {
    /// Makes an empty folder for packages.
    pub fn package_folder(&self) -> Result<PackageFolder, EnvironmentError> {
        let folder = JobFolder::create(&self.0.data)?;
        readable(folder.path()).map_err(|error| {
            EnvironmentError::storage(format!("{} could not be prepared", folder.path().display()), &error)
        })?;
        Ok(PackageFolder { folder, count: 0 })
    }
}

impl PackageFolder {
    /// Where it is: outside, and inside where it is mounted under its own name.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// How an environment is put into it. Earlier ones stay.
    pub fn placing(&mut self, environment: &Environment) -> Placing {
        self.count += 1;
        Placing {
            from: environment.root.clone(),
            half_done: self.path().join(format!(".{}", self.count)),
            place: self.path().join(self.count.to_string()),
        }
    }
}

/// An environment that is to be put into a folder.
#[derive(Debug)]
pub struct Placing {
    from: PathBuf,
    half_done: PathBuf,
    place: PathBuf,
}

impl Placing {
    /// Does it, and gives its new place. Blocks for the time of some thousand links.
    pub fn carry_out(self) -> Result<PathBuf, EnvironmentError> {
        let linked = link_tree(&self.from, &self.half_done);
        linked.and_then(|()| fs::rename(&self.half_done, &self.place)).map_err(|error| {
            EnvironmentError::storage(format!("{} could not be filled", self.place.display()), &error)
        })?;
        Ok(self.place)
    }
}

fn link_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    readable(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            link_tree(&source, &target)?;
        } else if kind.is_symlink() {
            link(&fs::read_link(&source)?, &target)?;
        } else if fs::hard_link(&source, &target).is_err() {
            // Another file system, or one without hard links.
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}

/// The sandbox's user may be another one than ours.
#[cfg(unix)]
fn readable(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn readable(_folder: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn link(target: &Path, name: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, name)
}

#[cfg(not(unix))]
fn link(_target: &Path, _name: &Path) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}
