//! The nursery: one small process for all launches of a server. It forks a launcher for each request, which is several
//! times quicker than executing this program again, and collects the ones that have ended.
//!
//! It never sees a plan: the launcher that it forks reads that from a socket of its own. Everything a script could meet
//! is executed anew after that, so nothing of the nursery's memory reaches it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::RecvFlags;

use super::sys::{self, Forked, rights};

/// Descriptors of one request: the launcher's socket, standard output, standard error.
pub const DESCRIPTORS: usize = 3;

/// Name of launchers in lists of processes.
const NAME: &std::ffi::CStr = c"mcp-launcher";

/// After this time without a request and without an end what the work needed of the program's file is given back.
const IDLE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Serves until the server's end of the socket on descriptor 0 is closed.
pub fn main() -> ! {
    // The kernel took the number of a descriptor for its name, and a list of processes would show that.
    let _ = rustix::thread::set_name(NAME);
    // SAFETY: the server starts this process with the socket on descriptor 0; nothing else owns it.
    let socket = unsafe { sys::adopt(0) };
    // An error means that there is no server, or nothing left to work with.
    let _ = serve(socket);
    sys::exit_now(0)
}

fn serve(socket: OwnedFd) -> io::Result<()> {
    let socket = super::receive::moved_away(socket)?;
    let signals = sys::child_signal_fd()?;
    let mut idle_after = Some(IDLE);
    loop {
        let mut watched = [PollFd::new(&socket, PollFlags::IN), PollFd::new(&signals, PollFlags::IN)];
        match rustix::event::poll(&mut watched, idle_after.as_ref()) {
            Ok(0) => {
                // Without it the process is larger, nothing else.
                let _ = sys::own_file::give_back();
                idle_after = None;
                continue;
            }
            Ok(_) => idle_after = Some(IDLE),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let asked = !watched[0].revents().is_empty();
        let mut drained = [0_u8; 1024];
        let _ = rustix::io::read(&signals, &mut drained);
        while sys::reap().is_some() {}
        if !asked {
            continue;
        }
        let Some([plan, stdout, stderr]) = request(socket.as_fd())? else { return Ok(()) };
        // SAFETY: this process has a single thread.
        match unsafe { sys::fork() } {
            Ok(Forked::Child) => {
                drop((socket, signals));
                launch([plan, stdout, stderr]);
            }
            // The server sees the launcher's socket closed where there is no child.
            Ok(Forked::Parent(_)) | Err(_) => {}
        }
    }
}

/// The next request; `None` at the end.
fn request(socket: BorrowedFd<'_>) -> io::Result<Option<[OwnedFd; DESCRIPTORS]>> {
    let mut arrived = Vec::new();
    let received = rights::receive(socket, &mut [0], RecvFlags::empty(), |one| arrived.push(one))?;
    if received == 0 {
        return Ok(None);
    }
    let three = arrived.try_into();
    three.map(Some).map_err(|_| io::Error::other("a request without its descriptors"))
}

fn launch(descriptors: [OwnedFd; DESCRIPTORS]) -> ! {
    match placed(descriptors) {
        Ok(socket) => super::launch(socket),
        Err(_) => sys::exit_now(super::EXIT_UNUSABLE),
    }
}

/// Puts the streams in their places and gives the socket. No other copy of them is left: their ends would not be seen.
fn placed([socket, stdout, stderr]: [OwnedFd; DESCRIPTORS]) -> io::Result<OwnedFd> {
    sys::place(stdout.as_fd(), 1)?;
    sys::place(stderr.as_fd(), 2)?;
    super::receive::above_all(&socket)
}
