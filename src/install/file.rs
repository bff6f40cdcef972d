//! A configuration file on disk: read, edited, replaced in one step, with what was there kept beside it.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{Change, Edit, EditError};

/// Backups beside one file at most: whoever has more can do without another.
const BACKUPS: usize = 100;

/// A file that was rewritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// What was done to the entry.
    pub change: Change,
    /// Where the former text is kept; `None` where there was no file.
    pub backup: Option<PathBuf>,
}

/// Why a file is left as it is.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Its text cannot be edited.
    #[error("{} was left as it is: {reason}. Correct it first, or add what `install --print` prints by hand", path.display())]
    Text {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: EditError,
    },
    /// It is no file with text.
    #[error("{} was left as it is: {reason}", path.display())]
    Unsuitable {
        /// What is there.
        path: PathBuf,
        /// Why it cannot be used.
        reason: &'static str,
    },
    /// Reading or writing failed.
    #[error("{} could not be {what}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
}

/// Rewrites a file by `edit`, which gets an empty text where there is no file. `None` where nothing had to be done.
///
/// The new text takes the place of the old one in one step; permissions and owner stay; a link stays a link.
pub fn rewrite(
    path: &Path,
    edit: impl FnOnce(&str) -> Result<Edit, EditError>,
) -> Result<Option<Written>, FileError> {
    let failed = |what| move |source| FileError::Io { path: path.to_owned(), what, source };
    let unsuitable = |reason| FileError::Unsuitable { path: path.to_owned(), reason };
    let there = match fs::canonicalize(path) {
        Ok(real) => Some(real),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => None,
        Err(error) => return Err(failed("found")(error)),
    };
    let old = match &there {
        None => String::new(),
        Some(real) if !real.is_file() => return Err(unsuitable("it is no file")),
        Some(real) => fs::read_to_string(real).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => unsuitable("it is not UTF-8 text"),
            _ => failed("read")(error),
        })?,
    };
    let edited = edit(&old).map_err(|reason| FileError::Text { path: path.to_owned(), reason })?;
    let Edit::Text(new, change) = edited else { return Ok(None) };
    let target = there.clone().unwrap_or_else(|| path.to_owned());
    let fresh = prepare(&target, &new).map_err(failed("written"))?;
    let backup = match &there {
        Some(real) => {
            let kept = keep(real, &old).map_err(failed("copied"))?;
            if fs::read_to_string(real).ok().as_deref() != Some(&old) {
                return Err(unsuitable("somebody else has written to it meanwhile; run this again"));
            }
            Some(kept)
        }
        None => None,
    };
    fresh.persist(&target).map_err(|error| failed("replaced")(error.error))?;
    Ok(Some(Written { change, backup }))
}

/// The new text in a file beside its place, on the same file system.
fn prepare(target: &Path, text: &str) -> io::Result<tempfile::NamedTempFile> {
    let folder = target.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut fresh = tempfile::NamedTempFile::new_in(folder)?;
    fresh.write_all(text.as_bytes())?;
    if let Ok(metadata) = fs::metadata(target) {
        become_like(fresh.as_file(), &metadata)?;
    }
    fresh.as_file().sync_all()?;
    Ok(fresh)
}

/// Permissions as before, and the owner where that is another one.
fn become_like(file: &File, metadata: &Metadata) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        let now = file.metadata()?;
        if (now.uid(), now.gid()) != (metadata.uid(), metadata.gid()) {
            fchown(file, Some(metadata.uid()), Some(metadata.gid()))?;
        }
    }
    file.set_permissions(metadata.permissions())
}

/// Keeps the former text beside the file, in a file that nobody else may read until it is like the first.
fn keep(real: &Path, text: &str) -> io::Result<PathBuf> {
    for number in 1..=BACKUPS {
        let mut name = OsString::from(real);
        name.push(if number == 1 { ".bak".to_owned() } else { format!(".bak{number}") });
        let backup = PathBuf::from(name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(&backup) {
            Ok(mut file) => {
                file.write_all(text.as_bytes())?;
                become_like(&file, &fs::metadata(real)?)?;
                return Ok(backup);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(format!("{BACKUPS} copies lie there already; remove some")))
}
