//! The files of a sandbox, by whatever its backend hands over.

use std::sync::Arc;

use crate::sandbox::{BoxFuture, Running};
#[cfg(native)]
use crate::session::beneath::Beneath;
use crate::session::path::WorkPath;
use crate::session::workspace::{FileBytes, FileError, Listing, Piece, Tree, Workspace};

/// The files of one sandbox; they can be reached after its end, too.
#[derive(Clone, Debug)]
pub enum Files {
    /// By a descriptor of the work directory.
    #[cfg(native)]
    Beneath(Beneath),
    /// Not at all.
    Unreachable,
}

impl Files {
    /// Takes the work directory of a sandbox that was just started.
    pub fn of(running: &mut Running) -> Self {
        #[cfg(native)]
        if let Some(folder) = running.work_dir.take() {
            return Self::Beneath(Beneath::new(folder));
        }
        let _ = running;
        Self::Unreachable
    }

    /// For callers that do not care how.
    pub fn workspace(&self) -> Arc<dyn Workspace> {
        match self {
            #[cfg(native)]
            Self::Beneath(files) => Arc::new(files.clone()),
            Self::Unreachable => Arc::new(Unreachable),
        }
    }

    /// Copies what is in another work directory into this one.
    pub async fn take_over(&self, from: &Self) -> Result<(), FileError> {
        match (self, from) {
            #[cfg(native)]
            (Self::Beneath(files), Self::Beneath(from)) => files.take_over(from).await,
            _ => Err(unreachable()),
        }
    }
}

/// The workspace of a backend that hands nothing over.
struct Unreachable;

fn unreachable() -> FileError {
    FileError::System {
        path: "the working directory".to_owned(),
        reason: "this sandbox backend does not hand it over; read and write files with execute_code"
            .to_owned(),
    }
}

fn refuse<T: Send + 'static>() -> BoxFuture<'static, Result<T, FileError>> {
    Box::pin(std::future::ready(Err(unreachable())))
}

impl Workspace for Unreachable {
    fn list(&self, _folder: &WorkPath) -> BoxFuture<'_, Result<Listing, FileError>> {
        refuse()
    }

    fn read(&self, _file: &WorkPath, _piece: Piece) -> BoxFuture<'_, Result<FileBytes, FileError>> {
        refuse()
    }

    fn write(&self, _file: &WorkPath, _content: Vec<u8>) -> BoxFuture<'_, Result<(), FileError>> {
        refuse()
    }

    fn remove(&self, _path: &WorkPath) -> BoxFuture<'_, Result<(), FileError>> {
        refuse()
    }

    fn files(&self, _most: usize) -> BoxFuture<'_, Result<Tree, FileError>> {
        refuse()
    }
}
