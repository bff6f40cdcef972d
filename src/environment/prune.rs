//! Removes small files that nobody needs any more: answers of the resolver whose environment is gone, and locks of what is
//! gone. They cost little each, and a thousand runs leave a thousand of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::lock::{Lock, Sharing};

/// Younger files may belong to something that is being made.
const YOUNG: Duration = Duration::from_hours(1);

fn old_files(folder: &Path) -> impl Iterator<Item = (PathBuf, String)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let changed = entry.metadata().and_then(|meta| meta.modified()).ok()?;
        let age = SystemTime::now().duration_since(changed).ok()?;
        Some((entry.path(), entry.file_name().into_string().ok()?)).filter(|_| age > YOUNG)
    })
}

/// Answers whose environment is gone.
pub fn resolutions(folder: &Path, environments: &Path) {
    for (path, _) in old_files(folder) {
        let key = fs::read(&path).ok().and_then(|text| {
            let value: serde_json::Value = serde_json::from_slice(&text).ok()?;
            Some(value.get("environment")?.as_str()?.to_owned())
        });
        if key.is_none_or(|key| !environments.join(key).exists()) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Locks that nobody holds and whose environment is gone. A lock is removed while it is held, so that nobody who waits
/// for it takes the removed file for the lock.
pub fn locks(folder: &Path, environments: &Path) {
    for (path, name) in old_files(folder) {
        let key =
            name.trim_end_matches(".lock").trim_start_matches("request-").trim_start_matches("compile-");
        if environments.join(key).exists() {
            continue;
        }
        if let Ok(Some(lock)) = Lock::try_take(&path, Sharing::Exclusive) {
            lock.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_young_held_or_needed_stays() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| place.path().join(name);
        for folder in ["locks", "resolutions", "environments/here"] {
            fs::create_dir_all(at(folder)).expect("made");
        }
        let make = |name: &str, text: &str, age: u64| {
            fs::write(at(name), text).expect("written");
            let file = fs::File::options().write(true).open(at(name)).expect("opened");
            file.set_modified(SystemTime::now() - Duration::from_hours(age)).expect("set");
        };
        for (name, age) in [("here", 2), ("gone", 2), ("request-gone", 2), ("young", 0), ("held", 2)] {
            make(&format!("locks/{name}.lock"), "", age);
        }
        make("resolutions/a.json", r#"{"environment": "here"}"#, 2);
        make("resolutions/b.json", r#"{"environment": "gone"}"#, 2);
        make("resolutions/c.json", "broken", 2);
        let _held = Lock::try_take(&at("locks/held.lock"), Sharing::Shared).expect("no error").expect("free");
        locks(&at("locks"), &at("environments"));
        resolutions(&at("resolutions"), &at("environments"));
        let left = |folder: &str| {
            let mut names: Vec<_> =
                fs::read_dir(at(folder)).expect("there").map(|e| e.expect("read").file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(left("locks"), ["held.lock", "here.lock", "young.lock"]);
        assert_eq!(left("resolutions"), ["a.json"]);
    }
}
