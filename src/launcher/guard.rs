//! The guard: the server's child, outside the run's process namespace. It waits for the run's first process and
//! ends it when the server goes away.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::stage::Failed;
use super::status::Message;
use super::sys::{self, Forked};
use super::{Early, init, namespaces};
use crate::sandbox::facts::LayerStatus;

const STAGE: &str = "guard";

/// Leaves the caller's namespaces, starts the run's process 1 and watches over it.
pub fn run(mut early: Early, mut layers: Vec<LayerStatus>) -> ! {
    match enter_namespaces(&mut early) {
        Ok(own) => layers.extend(own),
        Err(failed) => early.reporter.fail(&failed),
    }
    // SAFETY: the launcher has a single thread.
    match unsafe { sys::fork() } {
        Ok(Forked::Child) => init::in_namespace(early, layers),
        Ok(Forked::Parent(pid)) => match watch(&early, pid) {
            Ok(()) => sys::exit_now(0),
            Err(failed) => early.reporter.fail(&failed),
        },
        Err(error) => early.reporter.fail(&Failed::io(STAGE, "fork", &error)),
    }
}

fn enter_namespaces(early: &mut Early) -> Result<Vec<LayerStatus>, Failed> {
    let Some(isolation) = early.groundwork.isolation.as_ref() else {
        return Err(Failed::plain(STAGE, "a process namespace without isolation is not a plan"));
    };
    let layers = namespaces::enter(isolation)?;
    namespaces::offer_name_servers(isolation, &early.reporter)?;
    early.clock.mark("namespaces");
    Ok(layers)
}

fn watch(early: &Early, pid: i32) -> Result<(), Failed> {
    let reporter = &early.reporter;
    let pid = Pid::from_raw(pid).ok_or_else(|| Failed::plain(STAGE, "fork gave no process id"))?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty())
        .map_err(|error| Failed::errno(STAGE, "opening a pidfd", error))?;
    super::silence(&[1, 2])?;
    // Where the server is gone already, the wait below sees it.
    let _ = reporter.send(&Message::Supervisor, Some(pidfd.as_fd()));
    if early.groundwork.ahead {
        // This may be a long wait. Without it the process is larger, nothing else.
        let _ = sys::own_file::give_back();
    }
    wait_for_end(reporter.as_fd(), pidfd.as_fd()).map_err(|error| Failed::errno(STAGE, "poll", error))?;
    let _ = pidfd_send_signal(&pidfd, Signal::KILL);
    let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
    Ok(())
}

/// Waits until the run's first process has ended or the server's end of the socket is closed.
fn wait_for_end(socket: BorrowedFd<'_>, pidfd: BorrowedFd<'_>) -> rustix::io::Result<()> {
    // No event is asked for on the socket: a hang-up is always told, and the init reads the file contents.
    let mut watched =
        [PollFd::from_borrowed_fd(socket, PollFlags::RDHUP), PollFd::from_borrowed_fd(pidfd, PollFlags::IN)];
    loop {
        match rustix::event::poll(&mut watched, None) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}
