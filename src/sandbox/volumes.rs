//! What a backend offers whose sandboxes see nothing of the host's file system: programs of its own, and folders that
//! it keeps by name.

use std::path::PathBuf;

use super::{BoxFuture, StartError};

/// An empty folder of the sandbox user, for an environment.
pub const ENVIRONMENT: &str = "/environment";
/// Another one, for the package cache.
pub const PACKAGES: &str = "/packages";

/// How long a volume stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Until it is removed.
    Always,
    /// At most until the backend is closed.
    UntilClosed,
}

/// Hears in a few words how far the programs are that are being made.
pub type Making<'a> = &'a (dyn Fn(&str) + Send + Sync + 'a);

/// Programs and folders of a backend that cannot show the host's.
pub trait Volumes: Send + Sync {
    /// The programs that its sandboxes have. Where they are still being made it waits, and tells how far that is.
    fn programs<'a>(&'a self, progress: Making<'a>) -> BoxFuture<'a, Result<Programs, StartError>>;

    /// Makes an empty volume; an existing one stays as it is.
    fn create<'a>(&'a self, name: &'a str, keep: Keep) -> BoxFuture<'a, Result<(), StartError>>;

    /// Removes a volume unless a sandbox uses it; gives whether it is gone.
    fn remove<'a>(&'a self, name: &'a str) -> BoxFuture<'a, bool>;

    /// The volumes of this user.
    fn list(&self) -> BoxFuture<'_, Result<Vec<String>, StartError>>;

    /// The name of a volume, of this user's own.
    fn name(&self, purpose: &str) -> String;
}

/// What a backend's sandboxes can start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    /// Another one for every set of programs and every store of volumes.
    pub identity: String,
    /// A Python for helpers.
    pub python: PathBuf,
    /// Where uv is.
    pub uv: PathBuf,
    /// Folders with interpreters, as shell patterns.
    pub interpreters: Vec<String>,
}
