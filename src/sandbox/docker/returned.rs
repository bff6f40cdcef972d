//! Files on their way out of a container: those that a program changed in a folder of the host, and those that it left
//! to be shown. The container names them, so each name is checked, and each size bounded.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::fs::File;
use tokio::io::AsyncWriteExt;

use super::frame::FrameError;
use super::host_files::may_return;
use super::place::random;
use super::plan::DockerPlan;
use crate::sandbox::LeftFile;
use crate::sandbox::spec::OUTPUT_DIR;

/// What comes back from one container.
pub struct Returned {
    folders: Vec<PathBuf>,
    /// Bytes that may still come.
    budget: u64,
    open: Option<Coming>,
    left: Vec<Left>,
    /// Bytes of shown files that may still come.
    room: usize,
}

/// A file that is shown, as far as it has come.
struct Left {
    path: PathBuf,
    size: u64,
    content: Option<Vec<u8>>,
}

/// Files that are shown, and their bytes together.
const MOST_LEFT: usize = 100;
const LARGEST_LEFT: usize = 32 << 20;

/// A file that is coming: written beside its name, and put in place when it is whole.
struct Coming {
    file: File,
    beside: PathBuf,
    path: PathBuf,
}

impl Returned {
    /// Nothing yet.
    pub fn new(plan: &DockerPlan) -> Self {
        Self {
            folders: plan.program.returned.clone(),
            budget: plan.limits.disk,
            open: None,
            left: Vec::new(),
            room: LARGEST_LEFT,
        }
    }

    /// The next file begins, the one before is whole.
    pub async fn begin(&mut self, path: PathBuf) -> Result<(), FrameError> {
        self.finish().await?;
        if !may_return(&path, &self.folders) {
            return Err(FrameError::File(format!("it named {} as a file of its own", path.display())));
        }
        let failed = |error: std::io::Error| FrameError::File(format!("{}: {error}", path.display()));
        if let Some(parent) = path.parent() {
            tokio::fs::create_dir_all(parent).await.map_err(failed)?;
        }
        let beside = path.with_extension(random());
        let file = File::create_new(&beside).await.map_err(failed)?;
        self.open = Some(Coming { file, beside, path });
        Ok(())
    }

    /// A file begins that is shown, the one before is whole.
    pub async fn left(&mut self, path: PathBuf, size: u64) -> Result<(), FrameError> {
        self.finish().await?;
        if self.left.len() == MOST_LEFT || !may_return(&path, &[OUTPUT_DIR.into()]) {
            return Err(FrameError::File(format!("it showed {}", path.display())));
        }
        self.left.push(Left { path, size, content: (size == 0).then(Vec::new) });
        Ok(())
    }

    /// A piece of the file.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), FrameError> {
        self.budget = self
            .budget
            .checked_sub(bytes.len() as u64)
            .ok_or_else(|| FrameError::File("it gave back more than its disk limit".to_owned()))?;
        match (&mut self.open, self.left.last_mut()) {
            (Some(coming), _) => coming.file.write_all(bytes).await.map_err(|error| coming.failed(&error)),
            (None, Some(left)) if bytes.len() <= self.room => {
                self.room -= bytes.len();
                left.content.get_or_insert_default().extend(bytes);
                Ok(())
            }
            (None, Some(_)) => Err(FrameError::File("it showed more than is taken".to_owned())),
            (None, None) => Err(FrameError::Malformed),
        }
    }

    /// Nothing more comes; gives the files that are shown.
    pub async fn all(&mut self) -> Result<Vec<LeftFile>, FrameError> {
        self.finish().await?;
        let whole = |Left { path, size, content }| LeftFile { path, size, content: content.map(Arc::from) };
        Ok(std::mem::take(&mut self.left).into_iter().map(whole).collect())
    }

    /// The last file is whole.
    async fn finish(&mut self) -> Result<(), FrameError> {
        let Some(mut coming) = self.open.take() else { return Ok(()) };
        let placed = match coming.file.flush().await {
            Ok(()) => tokio::fs::rename(&coming.beside, &coming.path).await,
            Err(error) => Err(error),
        };
        placed.map_err(|error| coming.failed(&error))
    }
}

impl Coming {
    fn failed(&self, error: &std::io::Error) -> FrameError {
        FrameError::File(format!("{} could not be kept: {error}", self.path.display()))
    }
}

impl Drop for Returned {
    fn drop(&mut self) {
        if let Some(coming) = &self.open {
            let _ = std::fs::remove_file(&coming.beside);
        }
    }
}
