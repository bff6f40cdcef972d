//! The empty virtual environment that packages are installed into: a handful of links and one small file, so no
//! tool has to be started for it.
//!
//! Every run gets one, even without dependencies: a bare interpreter shows the script whatever its owner installed
//! into it, and starts slower for it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::interpreters::Interpreter;

/// Makes an empty environment of this interpreter in `root`, which must not exist. It says that it may be moved, so
/// that uv writes programs which find their interpreter beside themselves.
pub fn create(root: &Path, interpreter: &Interpreter) -> io::Result<()> {
    let layout = Layout::of(interpreter);
    for folder in layout.folders {
        fs::create_dir_all(root.join(folder))?;
    }
    for (name, target) in layout.links {
        link(Path::new(&target), &root.join(name))?;
    }
    fs::write(root.join("pyvenv.cfg"), layout.config)
}

/// What an empty environment is made of.
pub struct Layout {
    /// Folders below its root.
    pub folders: Vec<String>,
    /// Links below its root, and where each leads.
    pub links: BTreeMap<String, String>,
    /// The content of `pyvenv.cfg`.
    pub config: String,
}

impl Layout {
    /// The layout for an interpreter.
    pub fn of(interpreter: &Interpreter) -> Self {
        let library = interpreter.library_name();
        let executable = interpreter.executable.to_string_lossy().into_owned();
        let links = [("bin/python", executable.as_str()), ("bin/python3", "python"), ("lib64", "lib")];
        let mut links: BTreeMap<String, String> =
            links.map(|(name, target)| (name.to_owned(), target.to_owned())).into();
        links.insert(format!("bin/{library}"), "python".to_owned());
        let home = interpreter.executable.parent().unwrap_or(Path::new("/")).display();
        let version = &interpreter.version;
        let config = format!(
            "home = {home}\nimplementation = CPython\nversion_info = {version}\n\
             include-system-site-packages = false\nrelocatable = true\n"
        );
        Self { folders: vec!["bin".to_owned(), format!("lib/{library}/site-packages")], links, config }
    }
}

/// The folders that an installer writes to. Each is named on its own, so that a backend whose sandbox user is not
/// the owner can hand them over.
pub fn folders(root: &Path, interpreter: &Interpreter) -> Vec<PathBuf> {
    vec![root.to_owned(), root.join("bin"), packages(root, interpreter)]
}

/// Where packages lie.
pub fn packages(root: &Path, interpreter: &Interpreter) -> PathBuf {
    root.join("lib").join(interpreter.library_name()).join("site-packages")
}

#[cfg(unix)]
fn link(target: &Path, name: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, name)
}

#[cfg(not(unix))]
fn link(target: &Path, name: &Path) -> io::Result<()> {
    let _ = (target, name);
    Err(io::Error::from(io::ErrorKind::Unsupported))
}
