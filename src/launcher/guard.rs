//! The guard: the server's child, outside the run's process namespace. It waits for the run's first process and
//! ends it when the server goes away.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::stage::Failed;
use super::status::Message;
use super::sys::{self, Forked};
use super::{Launch, init, namespaces};

const STAGE: &str = "guard";

/// Leaves the caller's namespaces, starts the run's process 1 and watches over it.
pub fn run(launch: &mut Launch) -> Failed {
    match try_run(launch) {
        Ok(()) => sys::exit_now(0),
        Err(failed) => failed,
    }
}

fn try_run(launch: &mut Launch) -> Result<(), Failed> {
    let Some(isolation) = launch.plan.isolation.as_ref() else {
        return Err(Failed::plain(STAGE, "a process namespace without isolation is not a plan"));
    };
    let mut layers = std::mem::take(&mut launch.layers);
    layers.extend(namespaces::enter(isolation)?);
    namespaces::offer_name_servers(isolation, &launch.reporter)?;
    launch.clock.mark("namespaces");
    // SAFETY: the launcher has a single thread.
    match unsafe { sys::fork() }.map_err(|error| Failed::io(STAGE, "fork", &error))? {
        Forked::Child => init::in_namespace(launch, layers),
        Forked::Parent(pid) => watch(launch, pid),
    }
}

fn watch(launch: &mut Launch, pid: i32) -> Result<(), Failed> {
    let pid = Pid::from_raw(pid).ok_or_else(|| Failed::plain(STAGE, "fork gave no process id"))?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty())
        .map_err(|error| Failed::errno(STAGE, "opening a pidfd", error))?;
    super::silence(&[1, 2])?;
    launch.channel = None;
    // Where the server is gone already, the wait below sees it.
    let _ = launch.reporter.send(&Message::Supervisor, Some(pidfd.as_fd()));
    wait_for_end(launch.reporter.as_fd(), pidfd.as_fd())
        .map_err(|error| Failed::errno(STAGE, "poll", error))?;
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
