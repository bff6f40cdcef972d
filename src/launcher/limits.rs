//! Kernel limits of each process, and a session of the run's own.

use rustix::process::{Resource, Rlimit};

use super::stage::{Failed, Limited, Rooted, Worker, enforced};
use crate::sandbox::linux::plan::ResourceLimits;

impl Worker<Rooted> {
    /// Sets the limits, and no core files; starts a session, so that no terminal of the caller is in reach and the
    /// scheduler treats the run as one group.
    pub fn limit(self, limits: &ResourceLimits) -> Result<Worker<Limited>, Failed> {
        rustix::process::setsid().map_err(|error| Failed::errno("limits", "starting a session", error))?;
        set(Resource::Core, Some(0))?;
        set(Resource::Data, limits.data)?;
        set(Resource::Nproc, limits.processes)?;
        set(Resource::Nofile, limits.open_files)?;
        set(Resource::Fsize, limits.file_size)?;
        Ok(self.advance("limits", enforced("resource limits")))
    }
}

/// Sets both the soft and the hard limit; a lower hard limit of the caller stays.
fn set(resource: Resource, limit: Option<u64>) -> Result<(), Failed> {
    let Some(limit) = limit else { return Ok(()) };
    let old = rustix::process::getrlimit(resource);
    let limit = old.maximum.map_or(limit, |maximum| maximum.min(limit));
    let new = Rlimit { current: Some(limit), maximum: Some(limit) };
    rustix::process::setrlimit(resource, new)
        .map_err(|error| Failed::errno("limits", format!("setting {resource:?} to {limit}"), error))
}
