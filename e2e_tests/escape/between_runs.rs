//! What one run leaves, the next must not find: files, shared memory, changes of the interpreter and its packages.

use crate::harness::{Ground, Property};

pub const PROPERTY: Property = Property::steps(
    "between_runs",
    "A run finds nothing that an earlier one left, and cannot change interpreter or packages for a later one",
    steps,
);

const FIRST: &str = r#"
import site, sysconfig
paths = sysconfig.get_paths()
places = {
    "site-packages": os.path.join(paths["purelib"], "x7c1f0b.pth"),
    "customization": os.path.join(paths["purelib"], "sitecustomize.py"),
    "standard library": os.path.join(os.path.dirname(os.__file__), "x7c1f0b.py"),
    "bytecode": os.path.join(os.path.dirname(os.__file__), "__pycache__", "x7c1f0b.pyc"),
    "scripts": os.path.join(paths["scripts"], "x7c1f0b"),
    "configuration": os.path.join(sys.prefix, "pyvenv.cfg"),
    "script": os.path.abspath(__file__), "work": "x7c1f0b", "temporary": f"{SCRATCH}/x7c1f0b",
    "home": os.path.expanduser("~/x7c1f0b"), "user site": os.path.expanduser("~/.local/x7c1f0b"),
}
for label, path in places.items():
    def write(path=path):
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with open(path, "a") as file:
            file.write("import os; os.environ['ESCAPED'] = '1'\n")
    attempt(label, write)
attempt("cache", lambda: "none" if not any(name.startswith("packages") for folder, _, names in os.walk(os.path.dirname(os.path.dirname(sys.prefix)))
        for name in names) else "some")
"#;

const SECOND: &str = r#"
def anything():
    for top in (os.getcwd(), SCRATCH, os.path.expanduser("~"), sys.prefix, os.path.dirname(os.__file__)):
        for folder, _, names in os.walk(top):
            if any("7c1f0b" in name for name in names):
                return folder
    return "nothing"

attempt("files", anything)
attempt("variable", lambda: os.environ.get("ESCAPED", "unset"))
attempt("script", lambda: "as sent" if open(__file__).read().count("import os; os.environ") == ARGS["own"] else "changed")
"#;

fn steps(ground: &Ground) -> Result<(), String> {
    let none = serde_json::Map::new();
    let first = ground.attempts(&ground.script(FIRST, &none, &[]))?;
    let refused = ["site-packages", "customization", "standard library", "bytecode", "scripts", "configuration"];
    for label in refused {
        match first.get(label).map(String::as_str) {
            Some("EROFS" | "EACCES") => {}
            other => return Err(format!("{label}: {other:?}, not refused")),
        }
    }
    for label in ["work", "temporary", "home", "user site", "script"] {
        if first.get(label).map(String::as_str) != Some("ok") {
            return Err(format!("{label} should be writable: {:?}", first.get(label)));
        }
    }
    let own = SECOND.matches("import os; os.environ").count();
    let args = [("own".to_owned(), own.into())].into_iter().collect();
    let second = ground.attempts(&ground.script(SECOND, &args, &[]))?;
    for (label, expected) in [("files", "nothing"), ("variable", "unset"), ("script", "as sent")] {
        let told = second.get(label).map(String::as_str);
        if told != Some(expected) {
            return Err(format!("second run, {label}: {told:?}, not {expected}"));
        }
    }
    Ok(())
}
