//! Kernel limits of each process, and a session of the run's own.

use rustix::process::{Resource, Rlimit};

use super::stage::{Failed, Limited, Rooted, Worker, enforced};
use super::sys::{self, Forked};
use crate::sandbox::linux::plan::{ProcessLimit, ResourceLimits};

const STAGE: &str = "limits";

impl Worker<Rooted> {
    /// Sets the limits, and no core files; starts a session, so that no terminal of the caller is in reach and the
    /// scheduler treats the run as one group.
    pub fn limit(self, limits: &ResourceLimits) -> Result<Worker<Limited>, Failed> {
        rustix::process::setsid().map_err(|error| Failed::errno(STAGE, "starting a session", error))?;
        set(Resource::Core, Some(0))?;
        set(Resource::Data, limits.data)?;
        set(Resource::Nproc, limits.processes.map(processes).transpose()?)?;
        set(Resource::Nofile, limits.open_files)?;
        set(Resource::Fsize, limits.file_size)?;
        if let Some(niceness) = limits.niceness {
            rustix::process::setpriority_process(None, niceness.into())
                .map_err(|error| Failed::errno(STAGE, "giving way to everything else", error))?;
        }
        Ok(self.advance("limits", enforced("resource limits")))
    }
}

fn processes(limit: ProcessLimit) -> Result<u64, Failed> {
    match limit {
        ProcessLimit::Whole(number) => Ok(number),
        ProcessLimit::Beside(number) => Ok(in_use()?.saturating_add(number)),
    }
}

/// About how many processes and threads the user has, in all containers together: at least that many, less than twice
/// as many. Only the kernel knows; asked by starting a process under one limit after the other, which fails at once
/// where the limit is too low.
fn in_use() -> Result<u64, Failed> {
    const FIRST: u64 = 64;
    const MOST: u64 = 1 << 22;
    let hard = rustix::process::getrlimit(Resource::Nproc).maximum;
    let mut guess = FIRST;
    while guess < MOST {
        let current = Some(hard.map_or(guess, |hard| hard.min(guess)));
        rustix::process::setrlimit(Resource::Nproc, Rlimit { current, maximum: hard })
            .map_err(|error| Failed::errno(STAGE, "trying a number of processes", error))?;
        // SAFETY: the launcher has a single thread.
        match unsafe { sys::fork() } {
            Ok(Forked::Child) => sys::exit_now(0),
            Ok(Forked::Parent(_)) => {
                sys::wait_for_child();
                break;
            }
            Err(_) if current == hard => break,
            Err(_) => guess *= 2,
        }
    }
    Ok(guess)
}

/// Sets both the soft and the hard limit; a lower hard limit of the caller stays.
fn set(resource: Resource, limit: Option<u64>) -> Result<(), Failed> {
    let Some(limit) = limit else { return Ok(()) };
    let old = rustix::process::getrlimit(resource);
    let limit = old.maximum.map_or(limit, |maximum| maximum.min(limit));
    let new = Rlimit { current: Some(limit), maximum: Some(limit) };
    rustix::process::setrlimit(resource, new)
        .map_err(|error| Failed::errno(STAGE, format!("setting {resource:?} to {limit}"), error))
}
