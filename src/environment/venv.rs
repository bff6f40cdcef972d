//! The empty virtual environment that packages are installed into: a handful of links and one small file, so no
//! tool has to be started for it.
//!
//! Every run gets one, even without dependencies: a bare interpreter shows the script whatever its owner installed
//! into it, and starts slower for it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::interpreters::Interpreter;

/// Makes an empty environment of this interpreter in `root`, which must not exist. It says that it may be moved, so
/// that uv writes programs which find their interpreter beside themselves.
pub fn create(root: &Path, interpreter: &Interpreter) -> io::Result<()> {
    let library = interpreter.library_name();
    fs::create_dir_all(root.join("bin"))?;
    fs::create_dir_all(root.join("lib").join(&library).join("site-packages"))?;
    link(&interpreter.executable, &root.join("bin/python"))?;
    link(Path::new("python"), &root.join("bin/python3"))?;
    link(Path::new("python"), &root.join("bin").join(&library))?;
    link(Path::new("lib"), &root.join("lib64"))?;
    let home = interpreter.executable.parent().unwrap_or(Path::new("/")).display();
    let version = &interpreter.version;
    let config = format!(
        "home = {home}\nimplementation = CPython\nversion_info = {version}\n\
         include-system-site-packages = false\nrelocatable = true\n"
    );
    fs::write(root.join("pyvenv.cfg"), config)
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
