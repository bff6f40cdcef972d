//! Folders of the user's that every sandbox shows below its work directory.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::sandbox::spec::{Access, Mount, MountSource, WORK_DIR};
use crate::sandbox::{Backend, Facts, Tier};

/// Names that the work directory has itself.
const TAKEN: [&str; 2] = ["script.py", "output"];

/// One folder or file of the user's, as `HOST:NAME[:rw]` says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserMount {
    /// Where it is on the host: absolute and without links.
    pub source: PathBuf,
    /// Its name in the work directory.
    pub name: String,
    /// Whether it may be changed.
    pub access: Access,
}

/// Where the kernel and devices are files: they show the machine and its processes, and are no data.
const OF_THE_KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];

/// In these there is memory with the user's files.
const OPEN_AMONG_THEM: &str = "/dev/shm";

/// Why it is not shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserMountError {
    /// Another form.
    #[error("{0:?} is not HOST:NAME or HOST:NAME:rw, such as /data/sales:sales")]
    Form(String),
    /// The name cannot be one.
    #[error(
        "{0:?} cannot be a name in the working directory: take a plain one without slashes, not `script.py` or `output`"
    )]
    Name(String),
    /// Nothing is there.
    #[error("{path} cannot be shown: {reason}")]
    Missing {
        /// What was named.
        path: String,
        /// The system's answer.
        reason: String,
    },
    /// It is no data.
    #[error(
        "{0} shows this machine and its processes, and no data: copy what a script is to see into a folder"
    )]
    Kernel(PathBuf),
    /// It would show more than one folder of data.
    #[error("{0} is the root, a home directory or above one; name a folder in it, or use --mount-home")]
    Home(PathBuf),
    /// The backend cannot do it.
    #[error("--mount needs the native backend with its full tier, and this is {backend} ({offered})")]
    Unsupported {
        /// The backend.
        backend: Backend,
        /// What it offers.
        offered: String,
    },
    /// It would have to be given to another user.
    #[error("{0} cannot be shown writable while this program runs as root: start it as the folder's owner")]
    Root(PathBuf),
}

impl FromStr for UserMount {
    type Err = UserMountError;

    fn from_str(text: &str) -> Result<Self, UserMountError> {
        let (rest, access) = match text.strip_suffix(":rw") {
            Some(rest) => (rest, Access::ReadWrite),
            None => (text.strip_suffix(":ro").unwrap_or(text), Access::ReadOnly),
        };
        let (host, name) = rest.rsplit_once(':').ok_or_else(|| UserMountError::Form(text.to_owned()))?;
        let plain = !name.is_empty()
            && name.len() <= 255
            && !name.starts_with('.')
            && !TAKEN.contains(&name)
            && !name.chars().any(|c| c == '/' || c.is_control());
        if !plain {
            return Err(UserMountError::Name(name.to_owned()));
        }
        let missing = |reason: String| UserMountError::Missing { path: host.to_owned(), reason };
        let source = Path::new(host).canonicalize().map_err(|error| missing(error.to_string()))?;
        if !source.is_dir() && !source.is_file() {
            return Err(missing("it is neither a folder nor a file".to_owned()));
        }
        if is_of_the_kernel(&source) {
            return Err(UserMountError::Kernel(source));
        }
        Ok(Self { source, name: name.to_owned(), access })
    }
}

fn is_of_the_kernel(source: &Path) -> bool {
    OF_THE_KERNEL.iter().any(|folder| source.starts_with(folder))
        && (!source.starts_with(OPEN_AMONG_THEM) || source == Path::new(OPEN_AMONG_THEM))
}

impl UserMount {
    /// Refuses the root, home directories and what lies above one.
    pub fn check_home(&self, home: Option<&Path>) -> Result<(), UserMountError> {
        let above = |folder: &Path| folder.starts_with(&self.source);
        let homes = [Path::new("/home"), Path::new("/root"), Path::new("/Users")];
        let whole = home.is_some_and(above) || homes.into_iter().any(above);
        let of_another =
            self.source.parent().is_some_and(|parent| homes.contains(&parent) && parent != homes[1]);
        if whole || of_another { Err(UserMountError::Home(self.source.clone())) } else { Ok(()) }
    }

    /// Whether this backend can show it.
    pub fn check_backend(&self, facts: &Facts, is_root: bool) -> Result<(), UserMountError> {
        match &facts.tier {
            Ok(Tier::Full) if is_root && self.access == Access::ReadWrite => {
                Err(UserMountError::Root(self.source.clone()))
            }
            Ok(tier) if *tier != Tier::Full => {
                Err(UserMountError::Unsupported { backend: facts.backend, offered: tier.to_string() })
            }
            // Without any tier nothing is run, and every result says why.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// What the sandbox shows.
    pub fn mount(&self) -> Mount {
        Mount {
            source: MountSource::Host(self.source.clone()),
            target: Path::new(WORK_DIR).join(&self.name),
            access: self.access,
        }
    }
}

impl std::fmt::Display for UserMount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let how = if self.access == Access::ReadOnly { "read-only" } else { "writable" };
        write!(f, "{} is shown as {WORK_DIR}/{}, {how}", self.source.display(), self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_a_plain_name_and_is_read_only_unless_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let real = folder.path().canonicalize().expect("it exists");
        let parse = |rest: &str| format!("{}{rest}", folder.path().display()).parse::<UserMount>();
        let wanted = |access| Ok(UserMount { source: real.clone(), name: "data".to_owned(), access });
        assert_eq!(parse(":data"), wanted(Access::ReadOnly));
        assert_eq!(parse(":data:ro"), wanted(Access::ReadOnly));
        assert_eq!(parse(":data:rw"), wanted(Access::ReadWrite));
        for wrong in ["", ":", ":a/b", ":..", ":.hidden", ":script.py", ":output", ":data:rx", "/none:data"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_kernels_own_files_are_refused_through_links_too() {
        for closed in ["/proc", "/proc/1", "/proc/self/environ", "/sys", "/dev", "/dev/shm"] {
            assert!(is_of_the_kernel(Path::new(closed)), "{closed}");
        }
        for open in ["/dev/shm/data", "/process", "/srv/dev", "/srv/sys/data", "/home/bob/proc"] {
            assert!(!is_of_the_kernel(Path::new(open)), "{open}");
        }
        let place = tempfile::tempdir().expect("a folder");
        let link = place.path().join("link");
        std::os::unix::fs::symlink("/dev", &link).expect("linked");
        let mount = format!("{}:data", link.display()).parse::<UserMount>();
        assert_eq!(mount, Err(UserMountError::Kernel("/dev".into())));
    }

    #[test]
    fn homes_and_the_root_are_refused() {
        let mount = |source: &str| UserMount {
            source: source.into(),
            name: "data".to_owned(),
            access: Access::ReadOnly,
        };
        let home = Some(Path::new("/srv/people/ann"));
        for closed in ["/", "/home", "/home/bob", "/root", "/srv", "/srv/people", "/srv/people/ann"] {
            assert!(mount(closed).check_home(home).is_err(), "{closed}");
        }
        for open in ["/srv/people/ann/data", "/srv/data", "/home/bob/data", "/root/data", "/mnt"] {
            assert_eq!(mount(open).check_home(home), Ok(()), "{open}");
        }
    }

    #[test]
    fn a_backend_that_cannot_show_it_is_named() {
        let facts = |tier| Facts { backend: Backend::Docker, tier: Ok(tier), layers: Vec::new() };
        let mount = UserMount { source: "/mnt".into(), name: "data".to_owned(), access: Access::ReadWrite };
        assert!(matches!(
            mount.check_backend(&facts(Tier::Docker), false),
            Err(UserMountError::Unsupported { .. })
        ));
        assert!(matches!(mount.check_backend(&facts(Tier::Full), true), Err(UserMountError::Root(_))));
        assert_eq!(mount.check_backend(&facts(Tier::Full), false), Ok(()));
    }
}
