//! Finished environments in volumes: a record on the host for each, written last, so that a volume without one is not
//! finished. Locks and the order of removal are those of the other store.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::super::Environment;
use super::super::data_dir::DataDir;
use super::super::figures;
use super::super::files::write_atomically;
use super::super::lock::{Lock, Sharing};
use super::super::startup::Contents;
use super::super::stock::Cleaned;
use super::super::store::Record;
use super::volume_mount;
use crate::sandbox::spec::Access;
use crate::sandbox::volumes::{ENVIRONMENT, Volumes};

/// What is known of a finished environment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VolumeRecord {
    /// The volume that holds it.
    pub volume: String,
    /// What it holds.
    pub contents: Contents,
    /// The rest.
    pub record: Record,
}

/// The records in the data folder.
#[derive(Clone, Debug)]
pub struct VolumeStore {
    data: Arc<DataDir>,
    bound: u64,
}

impl VolumeStore {
    /// A store that keeps to this many bytes, packages included.
    pub fn new(data: Arc<DataDir>, bound: u64) -> Self {
        Self { data, bound }
    }

    fn folder(&self) -> PathBuf {
        self.data.volumes()
    }

    fn record_path(&self, key: &str) -> PathBuf {
        self.folder().join(format!("{key}.json"))
    }

    fn lock_path(&self, key: &str) -> PathBuf {
        self.data.locks().join(format!("{key}.lock"))
    }

    /// Opens a finished environment, or `None` where there is none or it is being built.
    pub fn open(&self, key: &str) -> Option<Environment> {
        let lock = Lock::try_take(&self.lock_path(key), Sharing::Shared).ok()??;
        let VolumeRecord { volume, contents, record } = self.record(key)?;
        let root = PathBuf::from(ENVIRONMENT);
        lock.touch();
        let mut env = BTreeMap::from([
            ("VIRTUAL_ENV".to_owned(), root.to_string_lossy().into_owned()),
            ("PATH".to_owned(), format!("{}/bin:/usr/local/bin:/usr/bin:/bin", root.display())),
        ]);
        if contents.modules.contains(figures::MODULE) {
            env.extend([figures::by_name()]);
        }
        Some(Environment {
            python: root.join("bin/python"),
            mounts: vec![volume_mount(&volume, ENVIRONMENT, Access::ReadOnly)],
            root,
            interpreter: record.interpreter,
            env,
            key: key.into(),
            notes: Vec::new(),
            compiled: record.compiled,
            contents: Some(contents),
            in_use: None,
            guard: lock.into(),
        })
    }

    /// What is known of a finished environment.
    pub fn record(&self, key: &str) -> Option<VolumeRecord> {
        serde_json::from_slice(&fs::read(self.record_path(key)).ok()?).ok()
    }

    /// Publishes what was built. The caller holds the exclusive lock of the key.
    pub fn publish(&self, key: &str, record: &VolumeRecord) -> io::Result<()> {
        self.save(key, record)
    }

    fn save(&self, key: &str, record: &VolumeRecord) -> io::Result<()> {
        fs::create_dir_all(self.folder())?;
        write_atomically(&self.record_path(key), &serde_json::to_vec(record)?)
    }

    /// Notes that the bytecode is complete.
    pub fn compiled(&self, key: &str) -> io::Result<()> {
        let Some(mut kept) = self.record(key) else { return Ok(()) };
        kept.record.compiled = true;
        self.save(key, &kept)
    }

    /// Notes the size of the package cache, as the last step saw it.
    pub fn note_packages(&self, size: u64) {
        let _ = write_atomically(&self.folder().join("packages"), size.to_string().as_bytes());
    }

    /// Bytes of environments and packages.
    pub fn size(&self) -> u64 {
        self.packages() + self.entries().iter().map(|(_, kept, _)| kept.record.size).sum::<u64>()
    }

    /// Forgets environments that are not in use. Their volumes are then ones that no record names, which the backend removes
    /// with its next `evict`: nothing here speaks to an engine.
    pub fn clean(&self) -> Cleaned {
        let mut cleaned = Cleaned::default();
        for (key, kept, _) in self.entries() {
            match Lock::try_take(&self.lock_path(&key), Sharing::Exclusive) {
                Ok(Some(_lock)) if fs::remove_file(self.record_path(&key)).is_ok() => {
                    cleaned.freed += kept.record.size;
                }
                _ => cleaned.in_use += 1,
            }
        }
        cleaned
    }

    fn packages(&self) -> u64 {
        let kept = fs::read_to_string(self.folder().join("packages")).ok();
        kept.and_then(|text| text.trim().parse().ok()).unwrap_or_default()
    }

    /// Removes one environment unless it is in use.
    pub async fn remove(&self, volumes: &dyn Volumes, key: &str) -> bool {
        let Ok(Some(lock)) = Lock::try_take(&self.lock_path(key), Sharing::Exclusive) else { return false };
        let volume = self.record(key).map(|kept| kept.volume);
        let _ = fs::remove_file(self.record_path(key));
        if let Some(volume) = volume {
            // One that a container of a killed server still holds is found again by the next sweep.
            volumes.remove(&volume).await;
        }
        lock.remove();
        true
    }

    /// Removes least recently used environments until the bound is kept, the package cache where it takes more than
    /// half of it, and volumes that no record names.
    pub async fn evict(&self, volumes: &dyn Volumes) {
        let mut entries = self.entries();
        self.remove_strays(volumes, &entries).await;
        let packages = self.packages();
        let mut total = packages + entries.iter().map(|(_, kept, _)| kept.record.size).sum::<u64>();
        if packages > self.bound / 2 && volumes.remove(&volumes.name("packages")).await {
            self.note_packages(0);
            total -= packages;
        }
        entries.sort_by_key(|(_, _, used)| *used);
        for (key, kept, _) in entries {
            if total <= self.bound {
                return;
            }
            if self.remove(volumes, &key).await {
                total = total.saturating_sub(kept.record.size);
            }
        }
    }

    /// A volume without a record is one that is being made, or was when its server was killed. Its key's lock tells.
    async fn remove_strays(&self, volumes: &dyn Volumes, entries: &[(String, VolumeRecord, SystemTime)]) {
        let Ok(list) = volumes.list().await else { return };
        let prefix = volumes.name("");
        for volume in list {
            let Some((key, _)) = volume.strip_prefix(&prefix).and_then(|rest| rest.split_once('-')) else {
                continue;
            };
            if entries.iter().any(|(_, kept, _)| kept.volume == volume) {
                continue;
            }
            let Ok(Some(lock)) = Lock::try_take(&self.lock_path(key), Sharing::Exclusive) else { continue };
            // Again, now that nobody can be publishing it.
            if self.record(key).is_none_or(|kept| kept.volume != volume) {
                volumes.remove(&volume).await;
            }
            drop(lock);
        }
    }

    /// All that are finished: key, record, and when each was used last.
    pub fn entries(&self) -> Vec<(String, VolumeRecord, SystemTime)> {
        let files = fs::read_dir(self.folder()).into_iter().flatten().flatten();
        files
            .filter_map(|file| {
                let name = file.file_name().into_string().ok()?;
                let key = name.strip_suffix(".json")?.to_owned();
                let kept = self.record(&key)?;
                let used = fs::metadata(self.lock_path(&key)).and_then(|meta| meta.modified());
                Some((key, kept, used.unwrap_or(SystemTime::UNIX_EPOCH)))
            })
            .collect()
    }
}
