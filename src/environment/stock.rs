//! What the data folder holds, for people: listing, measuring, emptying. Needs no sandbox and no uv.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::data_dir::{DataDir, unique};
use super::failure::EnvironmentError;
use super::files::{remove_tree, tree_size};
use super::host::HostEnv;
use super::inside::VolumeStore;
use super::lock::{Lock, Sharing};
use super::prune;
use super::store::Store;

/// The data folder.
#[derive(Debug)]
pub struct Stock {
    data: Arc<DataDir>,
    store: Store,
    volumes: VolumeStore,
}

/// One finished environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stocked {
    /// Its key.
    pub key: String,
    /// Full version of its interpreter.
    pub python: String,
    /// Its packages with their versions, sorted.
    pub packages: Vec<String>,
    /// Bytes on disk.
    pub size: u64,
    /// When it was used last.
    pub used: SystemTime,
    /// Whether it lies in a container engine's volume: then the packages are the names of their modules.
    pub in_volume: bool,
}

/// Bytes on disk, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Finished environments.
    pub environments: u64,
    /// Downloaded packages.
    pub packages: u64,
    /// Wheels that were built here.
    pub built: u64,
    /// Interpreters that were installed.
    pub interpreters: u64,
    /// A uv that was fetched.
    pub uv: u64,
    /// Environments and packages in a container engine's volumes.
    pub volumes: u64,
}

impl Sizes {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.environments + self.packages + self.built + self.interpreters + self.uv + self.volumes
    }
}

/// What emptying came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Bytes that were freed.
    pub freed: u64,
    /// Environments and package caches that are in use and stay.
    pub in_use: u64,
    /// Bytes of environments in a container engine's volumes, which go when that backend installs something next.
    pub in_volumes: u64,
}

impl Stock {
    /// Opens the folder that a server with this setting uses.
    pub fn open(data_dir: Option<&Path>, env: &HostEnv) -> Result<Self, EnvironmentError> {
        let data = Arc::new(DataDir::open(data_dir, env)?);
        let store = Store::new(data.clone(), data.root().join("packages"), u64::MAX);
        let volumes = VolumeStore::new(data.clone(), u64::MAX);
        Ok(Self { data, store, volumes })
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        self.data.root()
    }

    /// Finished environments, the one used last first.
    pub fn list(&self) -> Vec<Stocked> {
        let mut list: Vec<Stocked> = self
            .store
            .entries()
            .into_iter()
            .filter_map(|entry| {
                let interpreter = self.store.record(&entry.key)?.interpreter;
                let folder = self
                    .store
                    .path(&entry.key)
                    .join("lib")
                    .join(interpreter.library_name())
                    .join("site-packages");
                let packages = packages(&folder);
                Some(Stocked {
                    key: entry.key,
                    python: interpreter.version,
                    packages,
                    size: entry.size,
                    used: entry.used,
                    in_volume: false,
                })
            })
            .collect();
        list.extend(self.volumes.entries().into_iter().map(|(key, kept, used)| Stocked {
            key,
            python: kept.record.interpreter.version,
            packages: kept.contents.modules.into_iter().collect(),
            size: kept.record.size,
            used,
            in_volume: true,
        }));
        list.sort_by_key(|stocked| std::cmp::Reverse(stocked.used));
        list
    }

    /// Measures. Takes a moment for a large folder.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            environments: self.store.entries().iter().map(|entry| entry.size).sum(),
            packages: tree_size(&self.data.root().join("packages")),
            built: tree_size(&self.data.built()),
            interpreters: tree_size(&self.data.interpreters()),
            uv: tree_size(&self.data.uv()),
            volumes: self.volumes.size(),
        }
    }

    /// Removes environments, packages and built wheels; those in use stay, and so do interpreters and uv.
    pub fn clean(&self) -> Cleaned {
        let before = self.sizes().total();
        let entries = self.store.entries();
        let mut in_use = entries.iter().filter(|entry| !self.store.remove(&entry.key)).count() as u64;
        for folder in self.package_caches() {
            in_use += u64::from(!self.clear(&folder));
        }
        if in_use == 0 {
            self.clear_built();
        }
        let volumes = self.volumes.clean();
        prune::resolutions(&self.data);
        prune::locks(&self.data);
        in_use += volumes.in_use;
        let freed = before.saturating_sub(self.sizes().total() + volumes.freed);
        Cleaned { freed, in_use, in_volumes: volumes.freed }
    }

    fn package_caches(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.data.root().join("packages")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    }

    /// Whether nobody used it.
    fn clear(&self, cache: &Path) -> bool {
        let Ok(Some(_lock)) = Lock::try_take(&cache.with_extension("lock"), Sharing::Exclusive) else {
            return false;
        };
        self.bury(cache)
    }

    /// Wheels are read by installations, which hold a package cache: without one in use nobody reads them.
    fn clear_built(&self) {
        for entry in std::fs::read_dir(self.data.built()).into_iter().flatten().flatten() {
            self.bury(&entry.path());
        }
    }

    fn bury(&self, path: &Path) -> bool {
        let grave = self.data.jobs().join(format!("gone-{}", unique()));
        let moved = std::fs::rename(path, &grave).is_ok();
        remove_tree(&grave);
        moved
    }
}

/// `six-1.17.0.dist-info` says `six 1.17.0`.
fn packages(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut packages: Vec<String> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some(name.strip_suffix(".dist-info")?.replacen('-', " ", 1))
        })
        .collect();
    packages.sort();
    packages
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn an_empty_folder_is_listed_measured_and_cleaned() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let stock = Stock::open(Some(&place.path().join("data")), &HostEnv::default()).expect("opened");
        let cache = stock.root().join("packages/native");
        std::fs::create_dir_all(&cache).expect("made");
        std::fs::write(cache.join("ballast"), vec![1; 500_000]).expect("written");
        assert!(stock.list().is_empty() && stock.sizes().packages >= 500_000);
        let lock =
            Lock::try_take(&cache.with_extension("lock"), Sharing::Shared).expect("no error").expect("free");
        assert_eq!(stock.clean(), Cleaned { in_use: 1, ..Cleaned::default() });
        drop(lock);
        let cleaned = stock.clean();
        assert!(cleaned.freed >= 500_000 && cleaned.in_use == 0, "{cleaned:?}");
    }

    #[test]
    fn what_lies_in_volumes_is_listed_and_forgotten_unless_it_is_in_use() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let stock = Stock::open(Some(&place.path().join("data")), &HostEnv::default()).expect("opened");
        let record = r#"{"volume": "v", "contents": {"runs_code": false, "modules": ["six"]}, "record": {"interpreter":
            {"executable": "/p", "version": "3.13.1", "numbers": [3, 13, 1], "prerelease": false, "prefix": "/", "stdlib": "/l",
            "folders": [], "fingerprint": ""}, "size": 2000000, "compiled": true}}"#;
        std::fs::create_dir_all(stock.root().join("volumes")).expect("made");
        std::fs::write(stock.root().join("volumes/k.json"), record).expect("written");
        let listed = &stock.list()[0];
        assert!(listed.in_volume && listed.packages == ["six"] && stock.sizes().volumes == 2_000_000);
        let used = stock.root().join("locks/k.lock");
        let lock = Lock::try_take(&used, Sharing::Shared).expect("no error").expect("free");
        assert_eq!(stock.clean(), Cleaned { in_use: 1, ..Cleaned::default() });
        drop(lock);
        assert_eq!(stock.clean().in_volumes, 2_000_000);
        assert!(stock.list().is_empty() && stock.sizes().volumes == 0);
    }

    #[test]
    fn packages_are_read_off_the_names_of_their_folders() {
        let place = tempfile::tempdir().expect("a temporary folder");
        for name in ["six-1.17.0.dist-info", "my_pkg-2.dist-info", "six"] {
            std::fs::create_dir(place.path().join(name)).expect("made");
        }
        assert_eq!(packages(place.path()), ["my_pkg 2", "six 1.17.0"]);
    }
}
