//! Figures of scripts: environments with matplotlib get a backend for it, a small module that nothing else loads. It
//! keeps open figures as files, so that a result can show them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::interpreters::Interpreter;

/// The module's text.
pub const SOURCE: &str = include_str!("figures.py");
/// The module's name.
pub const MODULE: &str = "_sandbox_figures";

fn packages(root: &Path, interpreter: &Interpreter) -> PathBuf {
    root.join("lib").join(interpreter.library_name()).join("site-packages")
}

fn file(root: &Path, interpreter: &Interpreter) -> PathBuf {
    packages(root, interpreter).join(MODULE).with_extension("py")
}

/// Puts the module into an environment that was just installed, where that has matplotlib.
pub fn add(root: &Path, interpreter: &Interpreter) -> io::Result<()> {
    if packages(root, interpreter).join("matplotlib").is_dir() {
        fs::write(file(root, interpreter), SOURCE)?;
    }
    Ok(())
}

/// The variable that makes matplotlib use the module, where the environment has it.
pub fn variable(root: &Path, interpreter: &Interpreter) -> Option<(String, String)> {
    file(root, interpreter).is_file().then(by_name)
}

/// The same where the environment is known to have it.
pub fn by_name() -> (String, String) {
    ("MPLBACKEND".to_owned(), format!("module://{MODULE}"))
}
