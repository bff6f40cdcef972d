//! Files of the host that a specification shows. No path of the host is mounted into a container: the engine may be on
//! another machine, and its users on this one may differ. They are copied into the container's memory instead; what a
//! program changed in a folder that it may write is copied back at its end.
//!
//! A folder keeps its path. A single file lies in a folder of such files, and arguments and variables that name it are
//! changed. Folders of the system are not shown, and variables that name one are left out: the image has its own.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::sandbox::StartError;
use crate::sandbox::spec::{Access, InlineFile, MountSource, SandboxSpec};

/// Where single files lie inside.
pub const FOLDER: &str = "/run/host-files";

/// The most that is copied into one container, in bytes. It counts as the container's memory.
const LARGEST: u64 = 256 << 20;

/// Folders that are the image's own.
const SYSTEM: [&str; 11] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt", "/proc", "/sys", "/dev", "/run"];

/// What of the host goes into a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFiles {
    /// Single files.
    pub files: Vec<HostFile>,
    /// Folders with what is in them.
    pub folders: Vec<HostFolder>,
}

/// One file of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFile {
    /// Its path on the host.
    pub source: PathBuf,
    /// Its path inside.
    pub target: PathBuf,
    /// What is in it; `None` where it is not shown.
    pub content: Option<Arc<[u8]>>,
}

/// One folder of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFolder {
    /// Its path, on both sides.
    pub path: PathBuf,
    /// Whether changes are copied back.
    pub access: Access,
    /// The regular files in it, by absolute path.
    pub files: Vec<InlineFile>,
}

impl HostFiles {
    /// Reads the files and folders that the specification shows.
    pub fn read(spec: &SandboxSpec) -> Result<Self, StartError> {
        let mut read = Self::default();
        let mut budget = LARGEST;
        for mount in &spec.mounts {
            let MountSource::Host(source) = &mount.source else { continue };
            let failed = |error: io::Error| {
                let path = source.display();
                StartError::Unsupported(format!("{path} cannot be copied into a container: {error}"))
            };
            if source.is_dir() && !is_system(source) {
                let mut files = Vec::new();
                copy_folder(source, &mut files, &mut budget).map_err(failed)?;
                read.folders.push(HostFolder { path: source.clone(), access: mount.access, files });
            } else if mount.access == Access::ReadWrite {
                return Err(failed(io::Error::other("only a folder can be written")));
            } else if !read.files.iter().any(|file| file.source == *source) {
                let name = source.file_name().unwrap_or_default().to_string_lossy();
                let target = Path::new(FOLDER).join(format!("{}-{name}", read.files.len()));
                let content = if source.is_file() {
                    Some(copy_file(source, &mut budget).map_err(failed)?)
                } else {
                    None
                };
                read.files.push(HostFile { source: source.clone(), target, content });
            }
        }
        Ok(read)
    }

    /// Everything that is written into the container, by absolute path.
    pub fn contents(&self) -> impl Iterator<Item = InlineFile> + '_ {
        let files = self.files.iter().filter_map(|file| {
            let content = file.content.clone()?;
            Some(InlineFile { path: file.target.clone(), content })
        });
        files.chain(self.folders.iter().flat_map(|folder| folder.files.iter().cloned()))
    }

    /// Changes the arguments that name a single file.
    pub fn redirect_args(&self, args: &mut [String]) {
        for arg in args {
            if let Some(file) = self.files.iter().find(|file| file.source == Path::new(arg)) {
                *arg = file.target.to_string_lossy().into_owned();
            }
        }
    }

    /// Changes the variables that name such a file, and leaves out those that name one which is not shown.
    pub fn redirect_env(&self, env: &mut BTreeMap<String, String>) {
        let find = |path: &Path| self.files.iter().find(|file| file.source == path);
        env.retain(|_, value| {
            let named: Vec<PathBuf> = std::env::split_paths(value).collect();
            if !named.iter().any(|path| find(path).is_some()) {
                return true;
            }
            let shown = named.iter().filter_map(|path| match find(path) {
                Some(file) => file.content.is_some().then(|| file.target.clone()),
                None => Some(path.clone()),
            });
            let shown: Vec<String> = shown.map(|path| path.to_string_lossy().into_owned()).collect();
            *value = shown.join(":");
            !value.is_empty()
        });
    }
}

fn is_system(path: &Path) -> bool {
    path.components().count() <= 2 || SYSTEM.iter().any(|system| path.starts_with(system))
}

fn copy_file(path: &Path, budget: &mut u64) -> io::Result<Arc<[u8]>> {
    let content = std::fs::read(path)?;
    *budget = budget
        .checked_sub(content.len() as u64)
        .ok_or_else(|| io::Error::other(format!("more than {} MB are shown", LARGEST >> 20)))?;
    Ok(content.into())
}

/// Regular files only: a link could lead anywhere.
fn copy_folder(folder: &Path, files: &mut Vec<InlineFile>, budget: &mut u64) -> io::Result<()> {
    let mut entries: Vec<_> = std::fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_folder(&entry.path(), files, budget)?;
        } else if kind.is_file() {
            files.push(InlineFile { path: entry.path(), content: copy_file(&entry.path(), budget)? });
        }
    }
    Ok(())
}

/// Whether a path that a container names for a changed file lies in one of the folders, without a way out of it.
pub fn may_return(path: &Path, folders: &[PathBuf]) -> bool {
    folders.iter().any(|folder| {
        path.strip_prefix(folder).is_ok_and(|rest| {
            let mut parts = rest.components().peekable();
            parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_follow_the_files_and_those_of_system_folders_are_left_out() {
        let file = |source: &str, content: Option<&[u8]>| HostFile {
            source: source.into(),
            target: Path::new(FOLDER).join("0-ca.pem"),
            content: content.map(Arc::from),
        };
        let files = vec![file("/etc/ca.pem", Some(b"x")), file("/etc/certs", None)];
        let host = HostFiles { files, folders: Vec::new() };
        let mut env: BTreeMap<String, String> =
            [("SSL_CERT_FILE", "/etc/ca.pem"), ("SSL_CERT_DIR", "/etc/certs"), ("PATH", "/usr/bin:/bin")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into();
        host.redirect_env(&mut env);
        assert_eq!(env.get("SSL_CERT_FILE").map(String::as_str), Some("/run/host-files/0-ca.pem"));
        assert_eq!(env.get("SSL_CERT_DIR"), None);
        assert_eq!(env["PATH"], "/usr/bin:/bin");
        let mut args = ["--cert", "/etc/ca.pem", "/etc/ca.pem2"].map(str::to_owned);
        host.redirect_args(&mut args);
        assert_eq!(args, ["--cert", "/run/host-files/0-ca.pem", "/etc/ca.pem2"]);
    }

    #[test]
    fn only_files_in_writable_folders_come_back() {
        let folders = [PathBuf::from("/data/jobs/1")];
        assert!(may_return(Path::new("/data/jobs/1/source"), &folders));
        for path in ["/data/jobs/1", "/data/jobs/1/../2/x", "/data/jobs/12/x", "/etc/passwd", "x", ""] {
            assert!(!may_return(Path::new(path), &folders), "{path}");
        }
    }
}
