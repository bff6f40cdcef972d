//! The one folder for everything that is kept: packages, environments, interpreters, uv. Knows paths and nothing
//! of what is in them.
//!
//! All of it can be fetched again, so it lies in the user's cache folder, and deleting it at any time is harmless.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::failure::EnvironmentError;
use super::host::HostEnv;
use crate::sandbox::Backend;

/// Name of the folder below the user's cache folder.
const NAME: &str = "mcp-python-exec-sandbox";

/// The folder, ready to be written.
#[derive(Debug)]
pub struct DataDir {
    root: PathBuf,
    /// Said to the user when the folder is not the one that was wanted.
    note: Option<String>,
    temporary: bool,
}

impl DataDir {
    /// Opens the folder: the one that is named, else `$XDG_CACHE_HOME/mcp-python-exec-sandbox`, else the same
    /// below `~/.cache`; where neither can be written, a private temporary one, with a note.
    pub fn open(named: Option<&Path>, env: &HostEnv) -> Result<Self, EnvironmentError> {
        if let Some(path) = named {
            let root = prepare(path).map_err(|error| {
                EnvironmentError::storage(format!("{} cannot be used", path.display()), &error)
            })?;
            return Ok(Self { root, note: None, temporary: false });
        }
        let reason = match env.xdg("XDG_CACHE_HOME", ".cache") {
            None => "HOME is not set".to_owned(),
            Some(cache) => match prepare(&cache.join(NAME)) {
                Ok(root) => return Ok(Self { root, note: None, temporary: false }),
                Err(error) => format!("{} cannot be written ({error})", cache.join(NAME).display()),
            },
        };
        Self::temporary(env, &reason)
    }

    fn temporary(env: &HostEnv, reason: &str) -> Result<Self, EnvironmentError> {
        let parent = env.path("TMPDIR").unwrap_or_else(|| PathBuf::from("/tmp"));
        let path = parent.join(format!("{NAME}-{}", unique()));
        let root = create_private(&path).and_then(|()| prepare(&path)).map_err(|error| {
            EnvironmentError::storage(
                format!("{reason}, and {} cannot be used either", parent.display()),
                &error,
            )
        })?;
        let note = format!(
            "{reason}: packages are kept in {} until the server ends; name a folder with --data-dir",
            root.display()
        );
        Ok(Self { root, note: Some(note), temporary: true })
    }

    /// The folder itself, without symbolic links in its path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What the user should know of the choice.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// uv's cache of packages; written by uv alone. Each backend has its own, since they run uv as different users.
    pub fn package_cache(&self, backend: Backend) -> PathBuf {
        self.root.join("packages").join(backend.to_string())
    }

    /// Finished environments, each under its key.
    pub fn environments(&self) -> PathBuf {
        self.root.join("environments")
    }

    /// Records of finished environments that a backend keeps in volumes of its own.
    pub fn volumes(&self) -> PathBuf {
        self.root.join("volumes")
    }

    /// Whether there is a finished environment of this key, wherever it lies.
    pub fn holds(&self, key: &str) -> bool {
        self.environments().join(key).exists() || self.volumes().join(format!("{key}.json")).exists()
    }

    /// What requirements were resolved to.
    pub fn resolutions(&self) -> PathBuf {
        self.root.join("resolutions")
    }

    /// Wheels that were built here.
    pub fn built(&self) -> PathBuf {
        self.root.join("built")
    }

    /// Lock files.
    pub fn locks(&self) -> PathBuf {
        self.root.join("locks")
    }

    /// Work in progress.
    pub fn jobs(&self) -> PathBuf {
        self.root.join("jobs")
    }

    /// Interpreters that were installed for us.
    pub fn interpreters(&self) -> PathBuf {
        self.root.join("python")
    }

    /// A uv of our own.
    pub fn uv(&self) -> PathBuf {
        self.root.join("uv")
    }

    /// What was found out about the machine's interpreters.
    pub fn interpreter_index(&self) -> PathBuf {
        self.root.join("interpreters.json")
    }

    /// Makes the folders again where somebody deleted them.
    pub fn ensure(&self) -> io::Result<()> {
        prepare(&self.root).map(drop)
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        if self.temporary {
            super::files::remove_tree(&self.root);
        }
    }
}

fn prepare(path: &Path) -> io::Result<PathBuf> {
    if !path.exists() {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        create_private(path).or_else(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Ok(()),
            _ => Err(error),
        })?;
    }
    let root = path.canonicalize()?;
    for folder in ["packages", "built", "environments", "resolutions", "locks", "jobs", "python"] {
        fs::create_dir_all(root.join(folder))?;
    }
    let probe = root.join("jobs").join(format!(".probe-{}", unique()));
    fs::write(&probe, b"")?;
    fs::remove_file(&probe)?;
    let tag = root.join("CACHEDIR.TAG");
    if !tag.exists() {
        fs::write(tag, "Signature: 8a477f597d28d172789f06886806bc55\n")?;
    }
    Ok(root)
}

/// A folder that other users can pass through but not list: an environment inside is bound, or reached, by a
/// sandbox user that is not the owner.
fn create_private(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o711);
    builder.create(path)
}

/// A name that no other process or thread uses at the same time.
pub fn unique() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("{}-{:x}-{}", std::process::id(), now.as_nanos(), NEXT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_folder_of_the_user_is_taken() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let env = HostEnv::from_iter([("HOME", home.path().to_str().expect("UTF-8"))]);
        let data = DataDir::open(None, &env).expect("opened");
        assert!(data.root().ends_with(".cache/mcp-python-exec-sandbox"));
        assert!(data.root().join("packages").is_dir() && data.note().is_none());
    }

    #[test]
    fn without_a_home_there_is_a_temporary_folder_that_goes_away() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let env = HostEnv::from_iter([("TMPDIR", place.path().to_str().expect("UTF-8"))]);
        let data = DataDir::open(None, &env).expect("opened");
        let root = data.root().to_owned();
        assert!(root.is_dir() && data.note().is_some_and(|note| note.contains("HOME")));
        drop(data);
        assert!(!root.exists());
    }

    #[test]
    fn a_named_folder_that_cannot_be_used_is_an_error() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let file = place.path().join("file");
        fs::write(&file, b"").expect("written");
        assert!(DataDir::open(Some(&file), &HostEnv::default()).is_err());
    }
}
