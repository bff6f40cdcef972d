//! How far an installation is. uv tells nobody but a terminal, so its folders are looked at now and then: the packages that
//! stand in the environment, and what has been unpacked into the cache since it began.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::files::tree_size;
use super::progress::Reporter;

/// A person sees no difference at a shorter one, and looking at ten thousand files takes some milliseconds.
const INTERVAL: Duration = Duration::from_millis(400);

/// What is looked at.
#[derive(Clone, Debug)]
pub struct Watched {
    /// Where packages appear.
    pub packages: PathBuf,
    /// Where they are unpacked before.
    pub cache: PathBuf,
    /// How many there will be.
    pub total: u64,
    /// Bytes to download in all, 0 where that is not known.
    pub size: u64,
}

impl Watched {
    /// Does `work` and tells meanwhile how far it is.
    pub async fn during<T>(&self, reporter: &Reporter, work: impl Future<Output = T>) -> T {
        let begun = SystemTime::now();
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                result = &mut work => return result,
                () = tokio::time::sleep(INTERVAL) => {}
            }
            let this = self.clone();
            if let Ok((done, bytes)) = tokio::task::spawn_blocking(move || this.look(begun)).await {
                reporter.phase(&self.words(bytes), done, self.total);
            }
        }
    }

    fn look(&self, begun: SystemTime) -> (u64, u64) {
        let entries = std::fs::read_dir(&self.packages).into_iter().flatten().flatten();
        let is_package = |name: std::ffi::OsString| name.to_string_lossy().ends_with(".dist-info");
        let done = entries.filter(|entry| is_package(entry.file_name())).count() as u64;
        (done, new_bytes(&self.cache, begun, 2))
    }

    fn words(&self, unpacked: u64) -> String {
        let part = |bytes: u64| format!("{} MB", bytes >> 20);
        let mut words = "downloading and installing packages".to_owned();
        if self.size > 0 {
            words.extend([", ", &part(self.size), " to download"]);
        }
        if unpacked > 0 {
            words.extend([", ", &part(unpacked), " unpacked"]);
        }
        words
    }
}

/// Sizes of the trees that began since then, at most `levels` below the folder: what is older is not walked.
fn new_bytes(folder: &Path, begun: SystemTime, levels: u32) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Some((entry.path(), entry.metadata().ok().filter(std::fs::Metadata::is_dir)?)))
        .map(|(path, meta)| {
            let is_new = meta.created().or_else(|_| meta.modified()).is_ok_and(|made| made >= begun);
            match (is_new, levels) {
                (true, _) => tree_size(&path),
                (false, 0) => 0,
                (false, _) => new_bytes(&path, begun, levels - 1),
            }
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[tokio::test]
    async fn what_has_appeared_is_told_and_what_was_there_is_not_counted() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| place.path().join(name);
        for folder in ["packages/a-1.dist-info", "packages/a", "cache/archive/new"] {
            std::fs::create_dir_all(at(folder)).expect("made");
        }
        std::fs::write(at("cache/archive/new/file"), vec![1; 3 << 20]).expect("written");
        let watched = Watched { packages: at("packages"), cache: at("cache"), total: 2, size: 5 << 20 };
        assert_eq!(watched.look(SystemTime::now() + Duration::from_secs(1)), (1, 0));
        let (done, bytes) = watched.look(SystemTime::UNIX_EPOCH);
        assert!(done == 1 && bytes >= 3 << 20);
        let told = Arc::new(Mutex::new(Vec::<crate::environment::Phase>::new()));
        let reporter = Reporter::default();
        let heard = told.clone();
        reporter.add(
            &(Arc::new(move |phase: crate::environment::Phase| {
                heard.lock().expect("not poisoned").push(phase);
            }) as _),
        );
        watched.during(&reporter, tokio::time::sleep(INTERVAL * 3)).await;
        let told = told.lock().expect("not poisoned");
        assert!(told.iter().any(|phase| (phase.done, phase.total) == (1, 2)), "{told:?}");
        assert!(told[0].what.contains("5 MB to download"), "{told:?}");
    }
}
