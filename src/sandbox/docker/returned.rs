//! Files that a program changed in a folder of the host, on their way back. The container names them, so each name is
//! checked, and none replaces a link.

use std::path::PathBuf;

use tokio::fs::File;
use tokio::io::AsyncWriteExt;

use super::frame::FrameError;
use super::host_files::may_return;
use super::place::random;
use super::plan::DockerPlan;

/// What comes back from one container.
pub struct Returned {
    folders: Vec<PathBuf>,
    /// Bytes that may still come.
    budget: u64,
    open: Option<Coming>,
}

/// A file that is coming: written beside its name, and put in place when it is whole.
struct Coming {
    file: File,
    beside: PathBuf,
    path: PathBuf,
}

impl Returned {
    /// Nothing yet.
    pub fn new(plan: &DockerPlan) -> Self {
        Self { folders: plan.program.returned.clone(), budget: plan.limits.disk, open: None }
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

    /// A piece of the file.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), FrameError> {
        let Some(coming) = &mut self.open else { return Err(FrameError::Malformed) };
        self.budget = self
            .budget
            .checked_sub(bytes.len() as u64)
            .ok_or_else(|| FrameError::File("it gave back more than its disk limit".to_owned()))?;
        coming.file.write_all(bytes).await.map_err(|error| coming.failed(&error))
    }

    /// The last file is whole.
    pub async fn finish(&mut self) -> Result<(), FrameError> {
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
