//! Whether an interpreter runs code of the environment's packages before the script: `.pth` lines that import, `.start`
//! files, and modules that customise its start.

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
        let path = entry?.path();
        let stem = path.file_name().and_then(OsStr::to_str).and_then(|name| name.split('.').next());
        let customises = stem.is_some_and(|stem| CUSTOMISERS.contains(&stem));
        let runs = match path.extension().and_then(OsStr::to_str) {
            Some("pth") => imports(&fs::read(&path)?),
            Some("start") => true,
            _ => false,
        };
        if customises || runs {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Lines of a `.pth` file that start with `import` are run; all others are paths.
fn imports(content: &[u8]) -> bool {
    content.split(|byte| matches!(byte, b'\n' | b'\r')).any(|line| {
        line.strip_prefix(b"import").is_some_and(|rest| matches!(rest.first(), Some(b' ' | b'\t')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str, content: &str) -> bool {
        let place = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(place.path().join("numpy")).expect("made");
        fs::write(place.path().join(name), content).expect("written");
        runs_code(place.path()).expect("read")
    }

    #[test]
    fn code_at_the_start_is_found() {
        assert!(folder("a.pth", "/some/path\nimport evil\n"));
        assert!(folder("a.pth", "x\rimport\tevil"));
        assert!(folder("b.start", ""));
        assert!(folder("sitecustomize.py", ""));
        assert!(folder("usercustomize.cpython-313-x86_64-linux-gnu.so", ""));
    }

    #[test]
    fn ordinary_packages_run_nothing() {
        assert!(!folder("six.py", "import sys"));
        assert!(!folder("a.pth", "important/path\n# import x\n"));
        let place = tempfile::tempdir().expect("a temporary folder");
        assert!(runs_code(&place.path().join("none")).is_err());
    }
}
