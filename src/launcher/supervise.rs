//! The supervisor's wait: until the main program has ended, the server is gone, or a limit of the run is passed.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use super::deputy::Deputy;
use super::keeper::EndedForMemory;
use super::status::Message;
use super::sys::{self, Ended};
use super::watch::{self, Scratch, Watcher};
use super::{Launch, stage::Failed};
use crate::sandbox::LimitHit;
use crate::sandbox::linux::plan::{LaunchPlan, RootStep};

const STAGE: &str = "supervisor";

/// What a supervisor has in hand.
pub struct Supervised {
    /// The main program's process.
    pub worker: i32,
    /// Readable when a child has ended.
    pub signals: OwnedFd,
    /// Watches limits, where nothing else enforces them.
    pub watcher: Option<Watcher>,
    /// The run's own file system, where it has one.
    pub scratch: Option<Scratch>,
    /// Whether nothing of the run's own runs yet: then nothing has to be looked at until the server says that it has
    /// handed the script over.
    pub phase: Phase,
    /// Answers what the run's filter asks about.
    pub deputy: Option<Deputy>,
    /// Ends every process of the run, as far as the supervisor's own end does not.
    pub finish: fn(&Launch),
}

/// Whether anything can happen inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The program waits for its script and has no other code.
    Waiting,
    /// Code runs, the script's or what comes before it.
    Running,
}

impl Phase {
    /// Of a program that has just been started. One that got files has code in them, such as packages to import in
    /// advance, which runs before the script.
    pub fn first(plan: &LaunchPlan) -> Self {
        Self::of(
            plan.steps().iter().any(|step| matches!(step, RootStep::Fifo { .. })),
            plan.contents.is_empty(),
        )
    }

    fn of(asks_for_its_script: bool, has_nothing_else: bool) -> Self {
        if asks_for_its_script && has_nothing_else { Self::Waiting } else { Self::Running }
    }
}

impl Supervised {
    /// Waits, ends the run, tells how it ended, and ends this process.
    pub fn wait(mut self, launch: &Launch) -> ! {
        let mut next = Instant::now() + watch::INTERVAL;
        loop {
            while let Some(ended) = sys::reap() {
                if ended.pid == self.worker {
                    self.end(launch, &ended);
                }
            }
            if self.server_is_gone(launch, next) {
                (self.finish)(launch);
                sys::exit_now(0);
            }
            if self.phase == Phase::Waiting || Instant::now() < next {
                continue;
            }
            if let Some(scratch) = &mut self.scratch {
                scratch.look();
            }
            if let Some(hit) = self.passed(launch) {
                (self.finish)(launch);
                tell(launch, &Message::Limit(hit));
                let signal = Some(libc::SIGKILL);
                tell(launch, &Message::Exited { code: None, signal, cpu_us: 0, peak_memory: 0 });
                sys::exit_now(0);
            }
            next = Instant::now() + self.interval();
        }
    }

    /// The limit that the run has gone past, or that the kernel has begun to end its processes for.
    fn passed(&mut self, launch: &Launch) -> Option<LimitHit> {
        let ended = launch.ended_for_memory.iter().find_map(EndedForMemory::hit);
        ended.or_else(|| self.watcher.as_mut().and_then(Watcher::sweep))
    }

    fn end(&mut self, launch: &Launch, ended: &Ended) -> ! {
        if let Some(scratch) = &mut self.scratch {
            scratch.look();
        }
        let hit = if ended.status == 0 { None } else { self.reached(launch) };
        (self.finish)(launch);
        if let Some(hit) = hit {
            tell(launch, &Message::Limit(hit));
        }
        tell(launch, &exited(ended));
        sys::exit_now(0)
    }

    /// Time until the next look: longer where nothing has changed for a while, as in a run that waits.
    fn interval(&self) -> Duration {
        let moves = self.watcher.as_ref().is_some_and(Watcher::moves)
            || self.scratch.as_ref().is_some_and(Scratch::moves);
        if moves { watch::INTERVAL } else { watch::IDLE_INTERVAL }
    }

    /// What a run that has failed had reached, although it was kept within.
    fn reached(&mut self, launch: &Launch) -> Option<LimitHit> {
        let full = self.scratch.as_ref().is_some_and(Scratch::was_full);
        let disk = launch.plan.isolation.as_ref().map(|isolation| LimitHit::Disk(isolation.scratch_bytes));
        disk.filter(|_| full).or_else(|| self.watcher.as_mut().and_then(Watcher::reached))
    }

    fn serve(&mut self, asked: PollFlags) {
        if asked.contains(PollFlags::IN) {
            if let Some(deputy) = &mut self.deputy {
                deputy.serve();
            }
        } else if !asked.is_empty() {
            // No process is left that could ask.
            self.deputy = None;
        }
    }

    /// Sleeps until something happens, or until the next look at the limits.
    fn server_is_gone(&mut self, launch: &Launch, next: Instant) -> bool {
        let waits = self.phase == Phase::Waiting;
        let left = next.saturating_duration_since(Instant::now());
        let looks = !waits
            && (self.watcher.is_some() || self.scratch.is_some() || !launch.ended_for_memory.is_empty());
        let timeout = Timespec::try_from(left).ok().filter(|_| looks);
        let asked = if waits { PollFlags::RDHUP | PollFlags::IN } else { PollFlags::RDHUP };
        let mut watched =
            vec![PollFd::new(&launch.reporter, asked), PollFd::new(&self.signals, PollFlags::IN)];
        watched.extend(self.deputy.as_ref().map(|deputy| PollFd::new(deputy.listener(), PollFlags::IN)));
        let _ = rustix::event::poll(&mut watched, timeout.as_ref());
        let told = watched[0].revents();
        let of_deputy = watched.get(2).map_or(PollFlags::empty(), PollFd::revents);
        drop(watched);
        let gone = told.intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR);
        if told.contains(PollFlags::IN) && !gone {
            self.phase = Phase::Running;
        }
        let mut drained = [0_u8; 1024];
        let _ = rustix::io::read(&self.signals, &mut drained);
        self.serve(of_deputy);
        gone
    }
}

/// Where the server is gone there is nobody to tell.
fn tell(launch: &Launch, message: &Message) {
    let _ = launch.reporter.send(message, None);
}

fn exited(ended: &Ended) -> Message {
    let code = libc::WIFEXITED(ended.status).then(|| libc::WEXITSTATUS(ended.status));
    let signal = libc::WIFSIGNALED(ended.status).then(|| libc::WTERMSIG(ended.status));
    Message::Exited { code, signal, cpu_us: ended.cpu_us, peak_memory: ended.peak_memory }
}

/// Blocks the signal that children end by, and opens its descriptor.
pub fn child_signals() -> Result<OwnedFd, Failed> {
    sys::child_signal_fd().map_err(|error| Failed::io(STAGE, "watching children", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_program_without_any_code_is_not_looked_at() {
        assert_eq!(Phase::of(true, true), Phase::Waiting);
        assert_eq!(Phase::of(true, false), Phase::Running);
        assert_eq!(Phase::of(false, true), Phase::Running);
    }
}
