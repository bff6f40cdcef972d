//! Finished environments on disk: published by a rename, never changed afterwards but for bytecode files that are
//! added, removed when the size bound is passed and nobody uses them.
//!
//! Beside each environment `KEY/` lies `KEY.json`, written last: an environment without it is not finished.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};

use super::Environment;
use super::data_dir::{DataDir, unique};
use super::figures;
use super::files::{Folders, fingerprint, remove_tree, seal, tree_size, write_atomically};
use super::interpreters::Interpreter;
use super::lock::{Lock, Sharing};
use crate::sandbox::spec::Mount;

/// What is known of a finished environment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Its interpreter.
    pub interpreter: Interpreter,
    /// Its size on disk in bytes.
    pub size: u64,
    /// Whether its bytecode is complete.
    pub compiled: bool,
}

/// The environments in the data folder.
#[derive(Clone, Debug)]
pub struct Store {
    data: Arc<DataDir>,
    packages: PathBuf,
    bound: u64,
    opened: Arc<Mutex<HashMap<String, Opened>>>,
}

/// An environment that this process has open already. Nobody changes or removes it in an orderly way meanwhile, so what
/// was read of it holds, as far as a look at the files' names can tell.
#[derive(Debug)]
struct Opened {
    lock: Weak<Lock>,
    record: Record,
    /// Of the record's file.
    fingerprint: String,
    touched: Instant,
}

/// How exactly the time of the last use is kept: it decides which environment goes first.
const TOUCHED_EVERY: Duration = Duration::from_secs(10);

impl Store {
    /// A store that keeps to this many bytes, packages included.
    pub fn new(data: Arc<DataDir>, packages: PathBuf, bound: u64) -> Self {
        Self { data, packages, bound, opened: Arc::default() }
    }

    /// Where an environment lies.
    pub fn path(&self, key: &str) -> PathBuf {
        self.data.environments().join(key)
    }

    /// The lock of an environment: shared by its users, exclusive while it is built or removed.
    pub fn lock_path(&self, key: &str) -> PathBuf {
        self.data.locks().join(format!("{key}.lock"))
    }

    fn record_path(&self, key: &str) -> PathBuf {
        self.data.environments().join(format!("{key}.json"))
    }

    /// Opens a finished environment, or `None` where there is none or it is being built. Costs a few system calls.
    pub fn open(&self, key: &str) -> Option<Environment> {
        if let Some((record, lock)) = self.opened_before(key) {
            return Some(self.environment(key, record, lock));
        }
        let lock = Arc::new(Lock::try_take(&self.lock_path(key), Sharing::Shared).ok()??);
        let fingerprint = fingerprint(&self.record_path(key))?;
        let record = self.record(key)?;
        lock.touch();
        let mut opened = self.opened();
        opened.retain(|_, opened| opened.lock.strong_count() > 0);
        let weak = Arc::downgrade(&lock);
        let this = Opened { lock: weak, record: record.clone(), fingerprint, touched: Instant::now() };
        opened.insert(key.to_owned(), this);
        drop(opened);
        Some(self.environment(key, record, lock))
    }

    /// The same for one that is open already, and still the one that others would open.
    fn opened_before(&self, key: &str) -> Option<(Record, Arc<Lock>)> {
        let mut opened = self.opened();
        let opened = opened.get_mut(key)?;
        let lock = opened.lock.upgrade()?;
        let is_the_same = lock.is_current()
            && fingerprint(&self.record_path(key)).is_some_and(|now| now == opened.fingerprint)
            && self.is_there(key);
        if opened.touched.elapsed() >= TOUCHED_EVERY {
            lock.touch();
            opened.touched = Instant::now();
        }
        is_the_same.then(|| (opened.record.clone(), lock))
    }

    fn opened(&self) -> MutexGuard<'_, HashMap<String, Opened>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a finished environment.
    pub fn record(&self, key: &str) -> Option<Record> {
        let record = serde_json::from_slice(&fs::read(self.record_path(key)).ok()?).ok()?;
        self.is_there(key).then_some(record)
    }

    fn is_there(&self, key: &str) -> bool {
        self.path(key).join("pyvenv.cfg").is_file()
    }

    fn environment(&self, key: &str, record: Record, lock: Arc<Lock>) -> Environment {
        let Record { interpreter, compiled, .. } = record;
        let root = self.path(key);
        let mut mounts = interpreter.mounts();
        mounts.push(Mount::read_only(&root));
        let mut env = BTreeMap::from([
            ("VIRTUAL_ENV".to_owned(), root.to_string_lossy().into_owned()),
            ("PATH".to_owned(), format!("{}:/usr/local/bin:/usr/bin:/bin", root.join("bin").display())),
        ]);
        env.extend(figures::variable(&root, &interpreter));
        let python = root.join("bin/python");
        Environment {
            python,
            root,
            interpreter,
            mounts,
            env,
            key: key.into(),
            notes: Vec::new(),
            compiled,
            contents: None,
            in_use: None,
            guard: lock,
        }
    }

    /// Publishes what was built. The caller holds the exclusive lock of the key.
    pub fn publish(&self, key: &str, built: &Path, record: &Record) -> io::Result<()> {
        let home = self.path(key);
        if home.exists() {
            // Unfinished, or finished by a store of another layout: nobody can be using it.
            self.discard(&home)?;
        }
        fs::rename(built, &home)?;
        self.save(key, record)
    }

    fn save(&self, key: &str, record: &Record) -> io::Result<()> {
        write_atomically(&self.record_path(key), &serde_json::to_vec(record)?)
    }

    /// Notes that the bytecode is complete, and closes the folders.
    pub fn compiled(&self, key: &str) -> io::Result<()> {
        let Some(record) = self.record(key) else { return Ok(()) };
        let size = seal(&self.path(key), Folders::Closed)?;
        self.save(key, &Record { size, compiled: true, ..record })
    }

    fn discard(&self, home: &Path) -> io::Result<()> {
        let grave = self.data.jobs().join(format!("gone-{}", unique()));
        // A folder that its owner cannot write cannot be moved to another parent either.
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(home, fs::Permissions::from_mode(0o755))?;
        }
        fs::rename(home, &grave)?;
        remove_tree(&grave);
        Ok(())
    }

    /// Removes least recently used environments until the bound is kept; those in use stay. When packages alone
    /// take more than half of the bound, they go too: every environment has its own copy.
    pub fn evict(&self) {
        let packages = tree_size(&self.packages);
        let mut total = packages;
        let mut entries = self.entries();
        total += entries.iter().map(|entry| entry.size).sum::<u64>();
        if packages > self.bound / 2 && self.clear_packages() {
            total -= packages;
        }
        entries.sort_by_key(|entry| entry.used);
        for entry in entries {
            if total <= self.bound {
                return;
            }
            if self.remove(&entry.key) {
                tracing::info!(key = entry.key, size = entry.size, "an environment was removed for its size");
                total = total.saturating_sub(entry.size);
            }
        }
    }

    /// Removes one environment unless it is in use.
    pub fn remove(&self, key: &str) -> bool {
        let Ok(Some(lock)) = Lock::try_take(&self.lock_path(key), Sharing::Exclusive) else { return false };
        let _ = fs::remove_file(self.record_path(key));
        let gone = self.discard(&self.path(key)).is_ok();
        lock.remove();
        gone
    }

    fn clear_packages(&self) -> bool {
        let cache = &self.packages;
        let Ok(Some(_lock)) = Lock::try_take(&cache.with_extension("lock"), Sharing::Exclusive) else {
            return false;
        };
        self.discard(cache).is_ok() && fs::create_dir_all(cache).is_ok()
    }

    /// Everything that is finished.
    pub fn entries(&self) -> Vec<Entry> {
        let files = fs::read_dir(self.data.environments()).into_iter().flatten().flatten();
        files
            .filter_map(|file| {
                let name = file.file_name().into_string().ok()?;
                let key = name.strip_suffix(".json")?.to_owned();
                let size = self.record(&key)?.size;
                let used = fs::metadata(self.lock_path(&key)).and_then(|meta| meta.modified());
                Some(Entry { key, size, used: used.unwrap_or(SystemTime::UNIX_EPOCH) })
            })
            .collect()
    }
}

/// One finished environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its key.
    pub key: String,
    /// Its size on disk in bytes.
    pub size: u64,
    /// When it was used last.
    pub used: SystemTime,
}

#[cfg(all(test, unix))]
mod tests {
    use super::super::host::HostEnv;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn interpreter() -> Interpreter {
        Interpreter {
            executable: "/usr/bin/python3.13".into(),
            version: "3.13.0".into(),
            numbers: (3, 13, 0),
            prerelease: false,
            prefix: "/usr".into(),
            stdlib: "/usr/lib/python3.13".into(),
            folders: Vec::new(),
            fingerprint: "f".into(),
        }
    }

    fn store(place: &Path, bound: u64) -> Store {
        let data = DataDir::open(Some(&place.join("data")), &HostEnv::default()).expect("opened");
        let packages = data.root().join("packages/none");
        Store::new(Arc::new(data), packages, bound)
    }

    fn publish(store: &Store, key: &str, age: u64) {
        let built = store.data.jobs().join(key);
        super::super::venv::create(&built, &interpreter()).expect("made");
        fs::write(built.join("ballast"), vec![1; 2_000_000]).expect("written");
        let size = seal(&built, Folders::Open).expect("sealed");
        store
            .publish(key, &built, &Record { interpreter: interpreter(), size, compiled: false })
            .expect("published");
        let file = fs::File::create(store.lock_path(key)).expect("made");
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).expect("set");
    }

    #[test]
    fn an_environment_is_there_once_it_is_published() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let store = store(place.path(), 1 << 30);
        assert!(store.open("k").is_none());
        publish(&store, "k", 0);
        let environment = store.open("k").expect("there");
        assert!(environment.python.ends_with("k/bin/python"));
        assert_eq!(environment.mounts, [Mount::read_only(store.path("k"))]);
        assert!(environment.env["PATH"].starts_with(store.path("k").join("bin").to_str().expect("UTF-8")));
        store.compiled("k").expect("closed");
        assert!(store.record("k").expect("there").compiled);
    }

    #[test]
    fn what_is_open_already_is_opened_without_a_look_inside_unless_something_has_changed() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let store = store(place.path(), 1 << 30);
        publish(&store, "k", 0);
        let first = store.open("k").expect("there");
        let second = store.open("k").expect("there");
        assert!(Arc::ptr_eq(&first.guard, &second.guard) && !second.compiled);
        store.compiled("k").expect("closed");
        let third = store.open("k").expect("there");
        assert!(third.compiled && !Arc::ptr_eq(&first.guard, &third.guard));
        drop((first, second));
        // All that is open of it keeps it.
        assert!(store.open("k").is_some() && !store.remove("k"));
        fs::set_permissions(third.root.clone(), fs::Permissions::from_mode(0o755)).expect("opened");
        fs::remove_file(third.root.join("pyvenv.cfg")).expect("removed");
        assert!(store.open("k").is_none());
        fs::write(third.root.join("pyvenv.cfg"), "").expect("written");
        // A lock that others no longer meet.
        fs::remove_file(store.lock_path("k")).expect("removed");
        let fourth = store.open("k").expect("there");
        assert!(!Arc::ptr_eq(&third.guard, &fourth.guard));
        drop((third, fourth));
        assert!(store.opened_before("k").is_none());
        assert!(store.remove("k"));
    }

    #[test]
    fn without_its_record_an_environment_is_not_finished() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let store = store(place.path(), 1 << 30);
        publish(&store, "k", 0);
        fs::remove_file(store.record_path("k")).expect("removed");
        assert!(store.open("k").is_none());
        publish(&store, "k", 0);
        assert!(store.open("k").is_some());
    }

    #[test]
    fn the_oldest_goes_first_and_one_in_use_stays() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let store = store(place.path(), 5_000_000);
        for (key, age) in [("oldest", 300), ("older", 200), ("new", 100)] {
            publish(&store, key, age);
        }
        let in_use =
            Lock::try_take(&store.lock_path("oldest"), Sharing::Shared).expect("no error").expect("free");
        store.evict();
        let mut left: Vec<String> = store.entries().into_iter().map(|entry| entry.key).collect();
        left.sort();
        assert_eq!(left, ["new", "oldest"]);
        drop(in_use);
        assert!(store.remove("oldest") && !store.path("oldest").exists());
    }
}
