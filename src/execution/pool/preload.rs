//! Modules that a waiting interpreter has imported already, because the user asked for it.
//!
//! This is the one way in which a waiting interpreter differs from one that was just started, so it is never done
//! unasked, and every result tells of it.

use std::path::Path;

use crate::sandbox::SandboxSpec;
use crate::sandbox::spec::{InlineFile, WORK_DIR};

/// A folder of the work directory that is gone before the script comes.
const FOLDER: &str = ".preload";

/// The module by which an interpreter's start can be customised: it takes itself away and imports the rest.
const CUSTOMISE: &str = "\
import gc, os, sys
folder = os.path.dirname(__file__)
sys.path.remove(folder)
sys.path_importer_cache.pop(folder, None)
sys.modules.pop(__name__, None)
os.environ.pop('PYTHONPATH', None)
for place, _, files in os.walk(folder, topdown=False):
    for file in files:
        os.unlink(os.path.join(place, file))
    os.rmdir(place)
for module in MODULES:
    try:
        __import__(module)
    except Exception:
        # The script's own import will tell.
        pass
# Looking through all that the modules hold, at the end, takes longer than most scripts.
gc.collect()
gc.freeze()
";

/// The specification of an interpreter that imports these modules before it waits.
pub fn with_modules(spec: &SandboxSpec, modules: &[String]) -> SandboxSpec {
    let mut spec = SandboxSpec { files: Vec::new(), ..spec.clone() };
    if modules.is_empty() {
        return spec;
    }
    // Names of modules: letters, digits, underscores and dots.
    let names: Vec<String> = modules.iter().map(|module| format!("'{module}',")).collect();
    let text = format!("MODULES = ({})\n{CUSTOMISE}", names.concat());
    let path = Path::new(FOLDER).join("sitecustomize.py");
    spec.files.push(InlineFile { path, content: text.into_bytes().into() });
    spec.command.env.insert("PYTHONPATH".to_owned(), format!("{WORK_DIR}/{FOLDER}"));
    spec
}

/// What a result says.
pub fn note(modules: &[String]) -> Option<String> {
    (!modules.is_empty())
        .then(|| format!("imported before the script started (--preload): {}", modules.join(", ")))
}
