//! Whose containers are whose: a folder of this user on this machine, and one server in it.
//!
//! Containers and volumes carry the folder's random name as a label. A server holds a lock on a file as long as it
//! lives, so that another one that shares the folder can tell containers that nobody waits for. Containers of another
//! machine or user, who may share the engine, carry another name and are never touched.

use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::client::{Client, ClientError};
use super::plan::{LABEL_PLACE, LABEL_SERVER};
use super::{ANSWER, REMOVAL};

/// A server in its place.
#[derive(Debug)]
pub struct Place {
    folder: PathBuf,
    /// The place's random name.
    pub id: String,
    /// This server's random name.
    pub server: String,
    lock: File,
    next: AtomicU64,
}

impl Place {
    /// Takes a place in this folder, which is made.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let servers = folder.join("servers");
        fs::create_dir_all(&servers)?;
        let id = place_id(&folder.join("place"))?;
        let server = random();
        // Locked before it has its name: one without a lock is that of a server which was killed.
        let unnamed = servers.join(format!(".{server}"));
        let lock = File::create_new(&unnamed)?;
        lock.lock()?;
        fs::rename(unnamed, servers.join(&server))?;
        Ok(Self { folder: folder.to_owned(), id, server, lock, next: AtomicU64::new(1) })
    }

    /// A name for the next container.
    pub fn container_name(&self) -> String {
        format!("mcp-python-{}-{}", self.server, self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Writes a file into the place's folder, whole or not at all, and gives its path.
    pub fn keep(&self, name: &str, content: &str) -> io::Result<PathBuf> {
        let path = self.folder.join(name);
        if fs::read_to_string(&path).is_ok_and(|kept| kept == content) {
            return Ok(path);
        }
        let beside = self.folder.join(format!("{name}.{}", self.server));
        fs::write(&beside, content)?;
        fs::rename(beside, &path)?;
        Ok(path)
    }

    /// Removes what servers have left that have gone without tidying up: containers, and their own files.
    pub async fn sweep(&self, client: &Client) -> Result<usize, ClientError> {
        let left = self.containers_left(client).await?;
        self.forget_dead();
        Ok(left)
    }

    async fn containers_left(&self, client: &Client) -> Result<usize, ClientError> {
        let (filter, format) = (
            format!("label={LABEL_PLACE}={}", self.id),
            format!("{{{{.Names}}}} {{{{.Label \"{LABEL_SERVER}\"}}}}"),
        );
        let list = client.output(&["ps", "--all", "--filter", &filter, "--format", &format], ANSWER).await?;
        let left: Vec<&str> = list
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter(|(_, server)| !self.lives(server))
            .map(|(name, _)| name)
            .collect();
        if !left.is_empty() {
            match client.output(&[&["rm", "--force", "--volumes"], left.as_slice()].concat(), REMOVAL).await {
                // The engine, or another server that has just started, was quicker.
                Err(ClientError::Refused(reason)) if is_going(&reason) => {}
                result => drop(result?),
            }
        }
        Ok(left.len())
    }

    /// Removes the files of servers that do not live any more.
    fn forget_dead(&self) {
        let servers = fs::read_dir(self.folder.join("servers")).into_iter().flatten().flatten();
        for server in servers {
            let _ = self.lives(&server.file_name().to_string_lossy());
        }
    }

    /// Whether a server of this place still lives. The file of one that does not is removed.
    fn lives(&self, server: &str) -> bool {
        if server == self.server {
            return true;
        }
        let plain = !server.is_empty() && server.chars().all(|c| c.is_ascii_hexdigit());
        if !plain {
            return false;
        }
        let path = self.folder.join("servers").join(server);
        let Ok(file) = File::open(&path) else { return false };
        let gone = file.try_lock().is_ok();
        if gone {
            let _ = fs::remove_file(path);
        }
        !gone
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.folder.join("servers").join(&self.server));
        let _ = self.lock.unlock();
    }
}

fn is_going(reason: &str) -> bool {
    reason.contains("already in progress") || reason.contains("No such container")
}

/// The random name that the first server in a folder gives it.
fn place_id(file: &Path) -> io::Result<String> {
    let read = || fs::read_to_string(file).map(|text| text.trim().to_owned());
    match read() {
        Ok(id) if !id.is_empty() => return Ok(id),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Of two that start at once, the one that links first wins.
    let beside = file.with_extension(random());
    fs::write(&beside, random())?;
    let linked = fs::hard_link(&beside, file);
    let _ = fs::remove_file(&beside);
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => read(),
    }
}

/// Sixteen hexadecimal digits that nobody else has.
pub fn random() -> String {
    let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    hasher.write_u128(now.as_nanos());
    hasher.write_u32(std::process::id());
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_one_folder_share_its_name_and_see_each_other_s_end() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let first = Place::open(folder.path()).expect("opened");
        let second = Place::open(folder.path()).expect("opened");
        assert_eq!(first.id, second.id);
        assert_ne!(first.server, second.server);
        let name = second.server.clone();
        assert!(first.lives(&name) && first.lives(&first.server));
        drop(second);
        assert!(!first.lives(&name));
        assert!(!first.lives("../place"), "a label of somebody else's making is no path");
    }

    #[test]
    fn a_server_that_was_killed_counts_as_gone() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = Place::open(folder.path()).expect("opened");
        // What a killed server leaves: its file without a lock.
        let left = folder.path().join("servers/0123456789abcdef");
        fs::write(&left, b"").expect("written");
        assert!(!place.lives("0123456789abcdef") && !left.exists());
    }

    #[test]
    fn files_of_killed_servers_do_not_pile_up() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (mine, other) =
            (Place::open(folder.path()).expect("opened"), Place::open(folder.path()).expect("opened"));
        let servers = folder.path().join("servers");
        for number in 0..3 {
            fs::write(servers.join(format!("{number:016x}")), b"").expect("written");
        }
        let names = || {
            let all = fs::read_dir(&servers).expect("there").flatten();
            let mut names: Vec<_> = all.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
            names.sort();
            names
        };
        assert_eq!(names().len(), 5);
        mine.forget_dead();
        let mut living = [mine.server.clone(), other.server.clone()];
        living.sort();
        assert_eq!(names(), living);
    }
}
