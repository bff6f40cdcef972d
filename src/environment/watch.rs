//! How far an installation is, and whether it takes more than it may. uv tells nobody but a terminal, so its folders are
//! looked at now and then: the packages that stand in the environment, and what has been unpacked into the cache since it
//! began. An index need not say how large a file is, and a small file may be large when it is unpacked.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::failure::EnvironmentError;
use super::files::tree_size;
use super::progress::Reporter;

/// A person sees no difference at a shorter one, and looking at ten thousand files takes some milliseconds.
const INTERVAL: Duration = Duration::from_millis(400);

/// File times come from the kernel's tick, which lags behind the clock by up to 10 ms (`CONFIG_HZ=100`).
const TICK: Duration = Duration::from_millis(20);

/// What is looked at.
#[derive(Clone, Debug)]
pub struct Watched {
    /// What is being done.
    pub what: &'static str,
    /// Where packages appear.
    pub packages: PathBuf,
    /// Where they are unpacked before.
    pub cache: PathBuf,
    /// How many there will be.
    pub total: u64,
    /// Bytes to download in all, 0 where that is not known.
    pub size: u64,
    /// The most that it may take unpacked, in bytes.
    pub most: u64,
}

/// The error where dependencies take more than they may.
pub fn too_large(most: u64) -> EnvironmentError {
    EnvironmentError::Refused(format!(
        "the dependencies take more than the {} MB that --cache-size leaves for an environment",
        most >> 20
    ))
}

impl Watched {
    /// Does `work` and tells meanwhile how far it is. Drops it, and with it what it started, when it takes too much.
    pub async fn during<T>(
        &self,
        reporter: &Reporter,
        work: impl Future<Output = Result<T, EnvironmentError>>,
    ) -> Result<T, EnvironmentError> {
        let begun = SystemTime::now() - TICK;
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                result = &mut work => return result,
                () = tokio::time::sleep(INTERVAL) => {}
            }
            let this = self.clone();
            if let Ok((done, bytes)) = tokio::task::spawn_blocking(move || this.look(begun)).await {
                if bytes > self.most {
                    return Err(too_large(self.most));
                }
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
        let mut words = self.what.to_owned();
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
        let watched = Watched {
            what: "installing",
            packages: at("packages"),
            cache: at("cache"),
            total: 2,
            size: 5 << 20,
            most: 4 << 20,
        };
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
        let work = async {
            tokio::time::sleep(INTERVAL * 3).await;
            Ok(())
        };
        watched.during(&reporter, work).await.expect("it takes little");
        let told = told.lock().expect("not poisoned");
        assert!(told.iter().any(|phase| (phase.done, phase.total) == (1, 2)), "{told:?}");
        assert!(told[0].what.contains("5 MB to download"), "{told:?}");
    }

    #[tokio::test]
    async fn what_takes_too_much_is_ended() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let cache = place.path().to_owned();
        let watched = Watched {
            what: "installing",
            packages: cache.join("none"),
            cache: cache.clone(),
            total: 1,
            size: 0,
            most: 1 << 20,
        };
        let work = async move {
            std::fs::create_dir(cache.join("new")).expect("made");
            std::fs::write(cache.join("new/file"), vec![1; 2 << 20]).expect("written");
            std::future::pending::<Result<(), EnvironmentError>>().await
        };
        let error = watched.during(&Reporter::default(), work).await.expect_err("ended").to_string();
        assert!(error.contains("--cache-size"), "{error}");
    }
}
