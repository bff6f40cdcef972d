//! Whether an interpreter runs code of the environment's packages before the script: `.pth` lines that import, `.start`
//! files, and modules that customise its start, also where a `.pth` file leads.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Environment;

/// Modules that `site` imports where they are there.
const CUSTOMISERS: [&str; 2] = ["sitecustomize", "usercustomize"];

/// What is known of an environment whose files cannot be looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// Whether the interpreter's start runs code that came with a package.
    pub runs_code: bool,
    /// Modules and packages, by their first names.
    pub modules: BTreeSet<String>,
}

impl Environment {
    /// Whether the interpreter's start runs code that came with a package. Reads a folder's names and its `.pth` files.
    pub fn runs_code_at_start(&self) -> io::Result<bool> {
        if let Some(contents) = &self.contents {
            return Ok(contents.runs_code);
        }
        let library = self.root.join("lib").join(self.interpreter.library_name());
        runs_code(&library.join("site-packages"))
    }

    /// Which of these modules its packages hold, in their order.
    pub fn modules_among(&self, names: &[String]) -> Vec<String> {
        if let Some(contents) = &self.contents {
            let top = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
            return names.iter().filter(|name| contents.modules.contains(&top(name))).cloned().collect();
        }
        let library = self.root.join("lib").join(self.interpreter.library_name());
        let packages = library.join("site-packages");
        let holds = |name: &&String| {
            let top = packages.join(name.split('.').next().unwrap_or_default());
            top.is_dir() || top.with_extension("py").is_file()
        };
        names.iter().filter(holds).cloned().collect()
    }
}

fn runs_code(packages: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(packages)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        let runs = if name.ends_with(b".pth") {
            path_file_runs_code(packages, &fs::read(entry.path())?)
        } else {
            name.ends_with(b".start") || is_customiser(&entry.file_name())
        };
        if runs {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether `site` would import this: a module of Python or of C, or a package.
fn is_customiser(name: &OsStr) -> bool {
    let stem = name.to_str().and_then(|name| name.split('.').next());
    stem.is_some_and(|stem| CUSTOMISERS.contains(&stem))
}

/// Lines of a `.pth` file that start with `import` are run. The others are places to find modules in, and among these may
/// be one that customises the start.
fn path_file_runs_code(packages: &Path, content: &[u8]) -> bool {
    let text = String::from_utf8_lossy(content);
    text.strip_prefix('\u{feff}').unwrap_or(&text).split(ends_line).any(|line| {
        let is_code = line.strip_prefix("import").is_some_and(|rest| rest.starts_with([' ', '\t']));
        let place = line.trim_end();
        is_code || !place.is_empty() && !place.starts_with('#') && holds_customiser(&packages.join(place))
    })
}

/// What Python's `str.splitlines` takes for the end of a line.
fn ends_line(letter: char) -> bool {
    matches!(letter, '\n'..='\r' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn holds_customiser(place: &Path) -> bool {
    match fs::read_dir(place) {
        Ok(entries) => entries.flatten().any(|entry| is_customiser(&entry.file_name())),
        // An archive of modules, which is not looked into, or a folder that cannot be.
        Err(_) => place.exists(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the program that looks from inside a container finds has to be the same.
    fn looked_at(packages: &Path) -> bool {
        let found = runs_code(packages).expect("read");
        let plan = serde_json::json!({"root": packages.parent(), "folders": [packages.file_name().and_then(OsStr::to_str)],
            "links": {}, "config": "", "install": null, "packages": packages, "figures": ["", ""]});
        let mut python = std::process::Command::new("python3");
        let told = python.args(["-c", include_str!("inside/install.py"), &plan.to_string()]).output();
        let told = told.expect("there is a Python").stdout;
        let contents: serde_json::Value = serde_json::from_slice(&told).expect("JSON");
        assert_eq!(contents["runs_code"], found);
        found
    }

    fn folder(name: &str, content: &str) -> bool {
        let place = tempfile::tempdir().expect("a temporary folder");
        let packages = place.path().join("packages");
        fs::create_dir_all(packages.join("numpy")).expect("made");
        fs::write(packages.join(name), content).expect("written");
        looked_at(&packages)
    }

    #[test]
    fn code_at_the_start_is_found() {
        assert!(folder("a.pth", "/some/path\nimport evil\n"));
        assert!(folder("a.pth", "x\rimport\tevil"));
        assert!(folder("b.start", ""));
        assert!(folder("sitecustomize.py", ""));
        assert!(folder("usercustomize.cpython-313-x86_64-linux-gnu.so", ""));
        assert!(folder(".pth", "import evil\n"));
    }

    #[test]
    fn lines_end_where_python_ends_them() {
        for end in ["\n", "\r\n", "\u{b}", "\u{c}", "\u{1c}", "\u{1e}", "\u{85}", "\u{2028}", "\u{2029}"] {
            assert!(folder("a.pth", &format!("x{end}import evil")), "{end:?}");
        }
        assert!(folder("a.pth", "\u{feff}import evil"));
        assert!(!folder("a.pth", "x\timport evil"));
    }

    #[test]
    fn places_that_a_file_adds_are_looked_into() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let packages = &place.path().join("packages");
        fs::create_dir_all(packages.join("more")).expect("made");
        fs::write(packages.join("a.pth"), "# more\nmore  \nnot/there\n").expect("written");
        assert!(!looked_at(packages));
        fs::write(packages.join("more/sitecustomize.py"), "").expect("written");
        assert!(looked_at(packages));
        fs::write(packages.join("a.pth"), "archive.zip\n").expect("written");
        assert!(!looked_at(packages));
        fs::write(packages.join("archive.zip"), "").expect("written");
        assert!(looked_at(packages));
    }

    #[test]
    fn ordinary_packages_run_nothing() {
        assert!(!folder("six.py", "import sys"));
        assert!(!folder("a.pth", "important/path\n# import x\n"));
        let place = tempfile::tempdir().expect("a temporary folder");
        assert!(runs_code(&place.path().join("none")).is_err());
    }
}
