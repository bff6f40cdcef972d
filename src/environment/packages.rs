//! Packages that come to a sandbox after it was started: a folder which it sees read-only, and into which environments
//! are put from outside.
//!
//! On the host they are hard links to the store's files, as installers make them: no second copy, and nothing of other
//! environments is visible. Where the backend keeps environments in volumes, it is a volume, into which they are copied
//! by a sandbox that sees both.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::data_dir::unique;
use super::failure::EnvironmentError;
use super::job::JobFolder;
use super::lock::{Lock, Sharing};
use super::{Environment, Environments};
use crate::sandbox::spec::{Access, Command, Limits, Mount, MountSource, Network, Role, SandboxSpec};
use crate::sandbox::volumes::{ENVIRONMENT, Keep, PACKAGES};

/// Copies one folder to a new place that appears whole.
const COPY: &str = "
import os, shutil, sys
shutil.copytree(sys.argv[1], sys.argv[2] + '.new', symlinks=True)
os.rename(sys.argv[2] + '.new', sys.argv[2])
";

/// A folder of its own for one sandbox. It is removed when dropped, and what a killed server left is removed by the next
/// one.
pub struct PackageFolder {
    environments: Environments,
    place: Place,
    count: u32,
}

enum Place {
    /// On the host.
    Folder(JobFolder),
    /// In the backend's keeping, with the lock that says it is in use.
    Volume(String, Option<Lock>),
}

impl Environments {
    /// Makes an empty folder for packages.
    pub async fn package_folder(&self) -> Result<PackageFolder, EnvironmentError> {
        let place = match self.volumes() {
            None => {
                let folder = JobFolder::create(&self.0.data)?;
                readable(folder.path()).map_err(|error| {
                    let folder = folder.path().display();
                    EnvironmentError::storage(format!("{folder} could not be prepared"), &error)
                })?;
                Place::Folder(folder)
            }
            Some(volumes) => {
                let key = format!("s{}", unique().replace('-', ""));
                let lock =
                    Lock::try_take(&self.0.data.locks().join(format!("{key}.lock")), Sharing::Exclusive);
                let lock =
                    lock.map_err(|error| EnvironmentError::storage("a lock could not be made", &error))?;
                let name = volumes.name(&format!("{key}-session"));
                let made = volumes.create(&name, Keep::UntilClosed).await;
                made.map_err(|error| EnvironmentError::Sandbox(error.to_string()))?;
                Place::Volume(name, lock)
            }
        };
        Ok(PackageFolder { environments: self.clone(), place, count: 0 })
    }
}

impl PackageFolder {
    /// What its sandbox has to see.
    pub fn mount(&self) -> Mount {
        match &self.place {
            Place::Folder(folder) => Mount::read_only(folder.path()),
            Place::Volume(name, _) => volume(name, Access::ReadOnly),
        }
    }

    /// Puts an environment into it and gives its place, as seen from inside. Earlier ones stay.
    pub async fn add(&mut self, environment: &Environment) -> Result<PathBuf, EnvironmentError> {
        self.count += 1;
        let place = self.mount().target.join(self.count.to_string());
        match &self.place {
            Place::Folder(_) => {
                let (from, to) = (environment.root.clone(), place.clone());
                let linked = tokio::task::spawn_blocking(move || link_environment(&from, &to)).await;
                linked.map_err(io::Error::other).and_then(|linked| linked).map_err(|error| {
                    EnvironmentError::storage(format!("{} could not be filled", place.display()), &error)
                })?;
            }
            Place::Volume(name, _) => self.copy(environment, name, &place).await?,
        }
        Ok(place)
    }

    async fn copy(
        &self,
        environment: &Environment,
        name: &str,
        place: &Path,
    ) -> Result<(), EnvironmentError> {
        let mut mounts = environment.mounts.clone();
        mounts.push(volume(name, Access::ReadWrite));
        let args = ["-I", "-S", "-c", COPY, ENVIRONMENT, &place.to_string_lossy()].map(str::to_owned);
        let spec = SandboxSpec {
            role: Role::Prepare,
            command: Command {
                program: environment.interpreter.executable.clone(),
                args: args.into(),
                env: BTreeMap::new(),
                cwd: PACKAGES.into(),
            },
            mounts,
            files: Vec::new(),
            network: Network::None,
            named_servers: Vec::new(),
            limits: Limits::default(),
            channel: false,
        };
        let output = self.environments.0.runner.run(spec).await?;
        if output.code == 0 {
            return Ok(());
        }
        let why = output.stderr.trim().to_owned();
        Err(EnvironmentError::Sandbox(format!("copying the packages ended with {}: {why}", output.code)))
    }
}

impl PackageFolder {
    /// Removes it. Its sandbox has ended.
    pub async fn remove(mut self) {
        if let Some(removal) = self.removal() {
            removal.await;
        }
    }

    /// What is to be done beside dropping; none the second time.
    fn removal(&mut self) -> Option<impl Future<Output = ()> + Send + use<>> {
        let Place::Volume(name, lock) = &mut self.place else { return None };
        let lock = lock.take()?;
        let (name, environments) = (name.clone(), self.environments.clone());
        Some(async move {
            if let Some(volumes) = environments.volumes() {
                volumes.remove(&name).await;
            }
            lock.remove();
        })
    }
}

impl Drop for PackageFolder {
    fn drop(&mut self) {
        let removal = self.removal();
        // Without a runtime nothing can be removed now; the next server does it.
        if let (Some(removal), Ok(runtime)) = (removal, tokio::runtime::Handle::try_current()) {
            runtime.spawn(removal);
        }
    }
}

fn volume(name: &str, access: Access) -> Mount {
    Mount { source: MountSource::Volume(name.to_owned()), target: PACKAGES.into(), access }
}

/// The environment's files under another name; it appears whole.
fn link_environment(from: &Path, to: &Path) -> io::Result<()> {
    let half_done = to.with_extension("new");
    link_tree(from, &half_done)?;
    fs::rename(&half_done, to)
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn an_environment_is_linked_and_appears_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let (from, to) = (folder.path().join("store"), folder.path().join("1"));
        fs::create_dir_all(from.join("lib/a")).expect("a folder");
        fs::write(from.join("lib/a/b.py"), "x = 1").expect("written");
        link(Path::new("lib"), &from.join("lib64")).expect("a link");
        link_environment(&from, &to).expect("linked");
        let (old, new) = (fs::metadata(from.join("lib/a/b.py")), fs::metadata(to.join("lib64/a/b.py")));
        assert_eq!(old.expect("there").ino(), new.expect("there").ino(), "no second copy");
        assert!(fs::symlink_metadata(to.join("lib64")).expect("there").is_symlink());
        assert!(!to.with_extension("new").exists());
    }
}
