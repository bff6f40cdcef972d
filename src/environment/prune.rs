//! Removes small files that nobody needs any more: answers of the resolver whose environment is gone, and locks of what is
//! gone. They cost little each, and a thousand runs leave a thousand of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::data_dir::DataDir;
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
pub fn resolutions(data: &DataDir) {
    for (path, _) in old_files(&data.resolutions()) {
        let key = fs::read(&path).ok().and_then(|text| {
            let value: serde_json::Value = serde_json::from_slice(&text).ok()?;
            Some(value.get("environment")?.as_str()?.to_owned())
        });
        if key.is_none_or(|key| !data.holds(&key)) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Locks that nobody holds and whose environment is gone. A lock is removed while it is held, so that nobody who waits
/// for it takes the removed file for the lock.
pub fn locks(data: &DataDir) {
    for (path, name) in old_files(&data.locks()) {
        let key =
            name.trim_end_matches(".lock").trim_start_matches("request-").trim_start_matches("compile-");
        if data.holds(key) {
            continue;
        }
        if let Ok(Some(lock)) = Lock::try_take(&path, Sharing::Exclusive) {
            lock.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::host::HostEnv;
    use super::*;

    #[test]
    fn what_is_young_held_or_needed_stays() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let data = DataDir::open(Some(place.path()), &HostEnv::default()).expect("opened");
        let at = |name: &str| data.root().join(name);
        for folder in ["environments/here", "volumes"] {
            fs::create_dir_all(at(folder)).expect("made");
        }
        let make = |name: &str, text: &str, age: u64| {
            fs::write(at(name), text).expect("written");
            let file = fs::File::options().write(true).open(at(name)).expect("opened");
            file.set_modified(SystemTime::now() - Duration::from_hours(age)).expect("set");
        };
        make("volumes/there.json", "{}", 2);
        for (name, age) in
            [("here", 2), ("there", 2), ("gone", 2), ("request-gone", 2), ("young", 0), ("held", 2)]
        {
            make(&format!("locks/{name}.lock"), "", age);
        }
        make("resolutions/a.json", r#"{"environment": "here"}"#, 2);
        make("resolutions/b.json", r#"{"environment": "gone"}"#, 2);
        make("resolutions/d.json", r#"{"environment": "there"}"#, 2);
        make("resolutions/c.json", "broken", 2);
        let _held = Lock::try_take(&at("locks/held.lock"), Sharing::Shared).expect("no error").expect("free");
        locks(&data);
        resolutions(&data);
        let left = |folder: &str| {
            let mut names: Vec<_> =
                fs::read_dir(at(folder)).expect("there").map(|e| e.expect("read").file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(left("locks"), ["held.lock", "here.lock", "there.lock", "young.lock"]);
        assert_eq!(left("resolutions"), ["a.json", "d.json"]);
    }
}
