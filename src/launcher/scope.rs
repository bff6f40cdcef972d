//! Ending a run by a Landlock domain: the monitor's signals reach nothing but what it starts, so that one call ends
//! everything, however it is related.
//!
//! The kernel walks all processes in that call with forking held up, and a process with a pending kill cannot fork:
//! none slips through, daemons and fork bombs included.

use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use super::landlock;
use super::stage::Failed;
use super::sys::{self, Forked};

const STAGE: &str = "signal scope";

/// A process outside the domain, of the same user: the proof that signals stay inside. It ends when this is dropped
/// or the monitor ends.
struct Canary {
    pid: Pid,
    #[expect(dead_code, reason = "held: the canary ends when it is closed")]
    lifeline: std::os::fd::OwnedFd,
}

/// Restricts this process's signals to what it starts from now on, and proves it.
pub fn enter() -> Result<(), Failed> {
    if rustix::process::geteuid().is_root() {
        return Err(Failed::plain(STAGE, "never as root: a mistake would end every process of the machine"));
    }
    let canary = Canary::start()?;
    match canary.probe() {
        Ok(()) => {}
        Err(error) => return Err(Failed::errno(STAGE, "reaching the canary before", error)),
    }
    rustix::thread::set_no_new_privs(true)
        .map_err(|error| Failed::errno(STAGE, "setting no_new_privs", error))?;
    landlock::scope_signals()?;
    match canary.probe() {
        Err(Errno::PERM) => Ok(()),
        Err(error) => Err(Failed::errno(STAGE, "a signal to a process outside was not refused", error)),
        Ok(()) => Err(Failed::plain(STAGE, "a signal to a process outside was not refused")),
    }
}

impl Canary {
    fn start() -> Result<Self, Failed> {
        let (end, lifeline) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|error| Failed::errno(STAGE, "making a pipe", error))?;
        // SAFETY: the launcher has a single thread.
        match unsafe { sys::fork() }.map_err(|error| Failed::io(STAGE, "fork", &error))? {
            Forked::Child => {
                drop(lifeline);
                let _ = rustix::io::read(&end, &mut [0_u8; 1]);
                sys::exit_now(0)
            }
            Forked::Parent(pid) => {
                let pid =
                    Pid::from_raw(pid).ok_or_else(|| Failed::plain(STAGE, "fork gave no process id"))?;
                Ok(Self { pid, lifeline })
            }
        }
    }

    /// Asks whether a signal would be delivered; sends none.
    fn probe(&self) -> rustix::io::Result<()> {
        rustix::process::test_kill_process(self.pid)
    }
}

/// Ends every process of the domain but this one, and collects them. Call only after [`enter`].
pub fn end_all() {
    // No process at all is what is wanted in the end.
    let _ = sys::kill_all_in_reach(Signal::KILL.as_raw());
    while sys::wait_for_child() {
        // Each call walks all processes of the machine: once for many that have ended, not once for each.
        while sys::reap().is_some() {}
        let _ = sys::kill_all_in_reach(Signal::KILL.as_raw());
    }
}
