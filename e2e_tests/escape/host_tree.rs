//! A listing of the host is the same before and after a run that tries to write everywhere.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::harness::{Ground, Property};

pub const PROPERTY: Property = Property::steps(
    "host_tree",
    "After a run that tried to write everywhere, the host's files are what they were",
    steps,
);

const EVERYWHERE: &str = r#"
tried = 0
tops = ["/", "/usr", "/etc", "/var", "/dev", "/tmp", "/home", "/root", "/lib", "/bin", os.path.dirname(os.__file__), sys.prefix]
for folder, folders, names in (found for top in tops for found in [*os.walk(top)] or [(top, [], ["passwd", "x"])]):
    if folder.startswith("/proc"):
        folders.clear()
        continue
    for act in (
        lambda: open(os.path.join(folder, "escape-7c1f0b"), "w").close(),
        lambda: os.mkdir(os.path.join(folder, "escape-7c1f0b.d")),
        lambda: os.symlink("/etc/passwd", os.path.join(folder, "escape-7c1f0b.l")),
    ):
        tried += 1
        outcome_of(act)
    for name in names[:3]:
        path = os.path.join(folder, name)
        for act in (lambda: os.chmod(path, 0o777), lambda: os.utime(path, (0, 0)), lambda: os.truncate(path, 0),
                    lambda: os.rename(path, path + ".escape-7c1f0b"), lambda: os.unlink(path)):
            tried += 1
            outcome_of(act)
    if len(folder.split("/")) > 4:
        folders.clear()
attempt("tried", lambda: "enough" if tried > 60 else "little")
"#;

/// Path to kind, size, times, owner and mode, three levels deep, of folders that a run has in reach or might have.
fn listing(ground: &Ground) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for top in ["/etc", "/usr", "/bin", "/lib", "/opt", "/home", "/root", "/srv", "/var/lib"] {
        walk(Path::new(top), 3, &mut found);
    }
    walk(&ground.home.join(".cache"), 6, &mut found);
    found
}

fn walk(folder: &Path, depth: u32, found: &mut BTreeMap<String, String>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.filter_map(Result::ok) {
        let Ok(about) = entry.metadata() else { continue };
        let path = entry.path();
        // Folders of the server's own get their times from its own work.
        let time = if about.is_dir() { 0 } else { about.mtime_nsec() + about.mtime() };
        let line = format!("{:o} {} {} {time}", about.mode(), about.uid(), if about.is_dir() { 0 } else { about.size() });
        found.insert(path.display().to_string(), line);
        if about.is_dir() && depth > 0 {
            walk(&path, depth - 1, found);
        }
    }
}

fn steps(ground: &Ground) -> Result<(), String> {
    let none = serde_json::Map::new();
    // The environment is made before the listing, if no other property has.
    ground.attempts(&ground.script("", &none, &[]))?;
    let before = listing(ground);
    let told = ground.attempts(&ground.script(EVERYWHERE, &none, &[]))?;
    if told.get("tried").map(String::as_str) != Some("enough") {
        return Err("the script tried too little".to_owned());
    }
    let after = listing(ground);
    // Others use the machine at the same time: what counts is what the script touched.
    let changed = before.iter().filter(|(path, line)| after.get(*path).is_some_and(|now| now != *line));
    let marked = after.keys().filter(|path| path.contains("escape-7c1f0b"));
    let system = |path: &&String| ["/etc/", "/usr/", "/bin/", "/lib/"].iter().any(|top| path.starts_with(top));
    let broken: Vec<&String> = changed.map(|(path, _)| path).filter(system).chain(marked).take(5).collect();
    if broken.is_empty() { Ok(()) } else { Err(format!("changed: {broken:?}")) }
}
