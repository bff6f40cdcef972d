//! Advisory locks on files, by which several servers share one data folder. A lock ends with its holder, however
//! that ends.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A held lock.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
}

/// Who may hold it besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Any number of users.
    Shared,
    /// Nobody else.
    Exclusive,
}

impl Lock {
    /// Takes the lock if that is possible at once.
    pub fn try_take(path: &Path, sharing: Sharing) -> io::Result<Option<Self>> {
        loop {
            let file = open(path)?;
            let taken = match sharing {
                Sharing::Shared => file.try_lock_shared(),
                Sharing::Exclusive => file.try_lock(),
            };
            match taken {
                Ok(()) if is_current(&file, path) => return Ok(Some(Self { file, path: path.to_owned() })),
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    /// Waits for the lock. Dropping the future gives up; a thread of its own waits, since such a wait cannot be
    /// interrupted.
    pub async fn take(path: PathBuf, sharing: Sharing) -> io::Result<Self> {
        if let Some(lock) = Self::try_take(&path, sharing)? {
            return Ok(lock);
        }
        let (answer, waiting) = tokio::sync::oneshot::channel();
        std::thread::Builder::new().name("lock".to_owned()).spawn(move || {
            let _ = answer.send(Self::block(&path, sharing));
        })?;
        waiting.await.map_err(|_| io::Error::other("the waiting thread ended"))?
    }

    fn block(path: &Path, sharing: Sharing) -> io::Result<Self> {
        loop {
            let file = open(path)?;
            match sharing {
                Sharing::Shared => file.lock_shared()?,
                Sharing::Exclusive => file.lock()?,
            }
            if is_current(&file, path) {
                return Ok(Self { file, path: path.to_owned() });
            }
        }
    }

    /// Whether whoever asks for the lock now meets this one: a lock on a removed file protects nothing.
    pub fn is_current(&self) -> bool {
        is_current(&self.file, &self.path)
    }

    /// Notes that what it stands for was used just now.
    pub fn touch(&self) {
        let _ = self.file.set_modified(SystemTime::now());
    }

    /// Removes the lock file with what it stood for. Only for an exclusive lock.
    pub fn remove(self) {
        let _ = std::fs::remove_file(&self.path);
    }

    /// Gives up a lock whose object is gone though others may hold it still: who asks for it from now on gets a new one.
    /// The second lock keeps two of these apart.
    pub fn abandon(self, between: &Path) -> io::Result<()> {
        let Some(_alone) = Self::try_take(between, Sharing::Exclusive)? else { return Ok(()) };
        if self.is_current() {
            std::fs::remove_file(&self.path)?;
        }
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::options().create(true).truncate(false).write(true).read(true).open(path)
}

/// Whether the file is still the one under its name.
fn is_current(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        match (file.metadata(), path.metadata()) {
            (Ok(held), Ok(named)) => (held.dev(), held.ino()) == (named.dev(), named.ino()),
            _ => false,
        }
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        path.exists()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_writer_or_many_readers() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let path = place.path().join("x.lock");
        let first = Lock::try_take(&path, Sharing::Shared).expect("no error").expect("free");
        let second = Lock::try_take(&path, Sharing::Shared).expect("no error").expect("shared");
        assert!(Lock::try_take(&path, Sharing::Exclusive).expect("no error").is_none());
        drop((first, second));
        let writer = Lock::try_take(&path, Sharing::Exclusive).expect("no error").expect("free");
        let waiting = tokio::spawn(Lock::take(path.clone(), Sharing::Shared));
        writer.remove();
        let lock = waiting.await.expect("no panic").expect("taken after the first is gone");
        assert!(path.exists() && is_current(&lock.file, &path));
    }

    #[test]
    fn a_lock_on_what_is_gone_stands_in_nobody_s_way() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let path = place.path().join("x.lock");
        let _user = Lock::try_take(&path, Sharing::Shared).expect("no error").expect("free");
        let finder = Lock::try_take(&path, Sharing::Shared).expect("no error").expect("shared");
        finder.abandon(&place.path().join("between.lock")).expect("given up");
        assert!(Lock::try_take(&path, Sharing::Exclusive).expect("no error").is_some());
    }
}
