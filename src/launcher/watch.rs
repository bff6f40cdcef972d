//! Limits of the whole run, watched by its supervisor where no control group enforces them: memory of all processes
//! together, their number, and files.
//!
//! Often and cheap first: every sweep adds up what each process holds for itself. Only where the sum is too high is
//! it measured exactly, since pages that processes still share after a fork count once for each of them.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::sys;
use crate::sandbox::LimitHit;
use crate::sandbox::linux::plan::WatchPlan;

mod files;
mod members;

use files::Files;
pub use files::Scratch;
use members::Members;
pub use members::View;

/// Time between two sweeps. Memory is filled at 3 to 15 GiB a second, so this bounds by how much a run gets past its
/// limit.
pub const INTERVAL: Duration = Duration::from_millis(20);

/// The same where nothing has changed for a while.
pub const IDLE_INTERVAL: Duration = Duration::from_millis(100);

/// Sweeps without a change after which a run counts as idle.
const CALM: u32 = 50;

/// Time between two exact measurements, which cost up to 0.3 ms for each process.
const EXACT_INTERVAL: Duration = Duration::from_millis(100);

/// Watches one run.
pub struct Watcher {
    plan: WatchPlan,
    members: Members,
    files: Files,
    measured: Option<Instant>,
    /// Whether the number of processes was at its limit at some time.
    crowded: bool,
    changes: Changes,
}

/// Whether a figure has changed lately.
#[derive(Default)]
struct Changes {
    figure: u64,
    calm: u32,
}

impl Changes {
    fn note(&mut self, figure: u64) {
        self.calm = if figure == self.figure { self.calm.saturating_add(1) } else { 0 };
        self.figure = figure;
    }

    fn lately(&self) -> bool {
        self.calm < CALM
    }
}

impl Watcher {
    /// Watches what is seen in this view; `scratch` is a folder of the file system in memory that holds the run's files,
    /// where it has one.
    pub fn new(plan: WatchPlan, view: View, scratch: Option<OwnedFd>) -> Self {
        sys::raise_descriptor_limit();
        let folders = plan.disk.as_ref().map(|(folders, _)| folders.clone()).unwrap_or_default();
        let files = Files::new(folders, scratch, plan.memory_folder.clone());
        Self {
            plan,
            members: Members::new(view),
            files,
            measured: None,
            crowded: false,
            changes: Changes::default(),
        }
    }

    /// Looks at everything once. Tells the limit that the run has gone past.
    pub fn sweep(&mut self) -> Option<LimitHit> {
        self.members.refresh();
        if let Some(limit) = self.plan.processes {
            let threads = self.members.threads();
            self.crowded |= threads >= limit;
            if threads > limit.saturating_add(members::OWN) {
                return Some(LimitHit::Processes(limit));
            }
        }
        if let Some(limit) = self.plan.memory.filter(|limit| self.uses_too_much_memory(*limit)) {
            return Some(LimitHit::Memory(limit));
        }
        let (_, limit) = self.plan.disk.as_ref()?;
        let on_disk = self.files.on_disk(&self.members, *limit);
        if self.plan.memory.is_none() {
            self.changes.note(on_disk);
        }
        (on_disk > *limit).then_some(LimitHit::Disk(*limit))
    }

    /// Whether anything has changed lately.
    pub fn moves(&self) -> bool {
        self.changes.lately()
    }

    /// What a run that has failed had reached, although the kernel kept it within. A last look, since a script that fails
    /// at the limit ends at once: its main program, which is gone by now, was one more.
    pub fn reached(&mut self) -> Option<LimitHit> {
        let limit = self.plan.processes?;
        self.members.refresh();
        let crowded = self.crowded || self.members.threads() + 1 >= limit;
        crowded.then_some(LimitHit::Processes(limit))
    }

    fn uses_too_much_memory(&mut self, limit: u64) -> bool {
        let files = self.files.in_memory(&self.members, limit);
        let sum = self.members.private_bytes().saturating_add(files);
        self.changes.note(sum);
        if sum <= limit {
            return false;
        }
        if self.measured.is_some_and(|at| at.elapsed() < EXACT_INTERVAL) {
            return false;
        }
        self.measured = Some(Instant::now());
        self.members.proportional_bytes().saturating_add(files) > limit
    }
}
