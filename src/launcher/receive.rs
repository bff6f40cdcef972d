//! The socket to the server: the plan and file contents come in, messages and descriptors go out.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::RecvFlags;
use serde::de::DeserializeOwned;

use super::stage::Failed;
use super::status::{Message, PLAN_LIMIT, frame};
use super::sys::{self, rights};
use crate::sandbox::linux::plan::{Groundwork, LaunchPlan};

/// Lowest number for descriptors of our own, above all that a program is given.
const FIRST_OWN_DESCRIPTOR: i32 = 10;

/// This process's end of the socket.
pub struct Reporter {
    socket: OwnedFd,
}

/// Moves a socket away from descriptor 0, closed at exec, and puts `/dev/null` there.
pub fn moved_away(socket: OwnedFd) -> io::Result<OwnedFd> {
    let moved = rustix::io::fcntl_dupfd_cloexec(&socket, FIRST_OWN_DESCRIPTOR)?;
    // Descriptor 0 stays owned by number: `place` closes the socket's first copy.
    std::mem::forget(socket);
    super::silence(&[0]).map_err(|failed| io::Error::other(failed.0.detail))?;
    Ok(moved)
}

/// A copy of a descriptor above all that a program is given.
pub fn above_all(descriptor: &OwnedFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(descriptor, FIRST_OWN_DESCRIPTOR)?)
}

impl Reporter {
    /// On this socket.
    pub fn new(socket: OwnedFd) -> Self {
        Self { socket }
    }

    /// Reads what comes before the plan.
    pub fn receive_groundwork(&self) -> io::Result<Groundwork> {
        self.receive().map(|(groundwork, _)| groundwork)
    }

    /// Reads the plan and, where the server sent one along, the far end of the program's channel.
    pub fn receive_plan(&self) -> io::Result<(LaunchPlan, Option<OwnedFd>)> {
        self.receive()
    }

    fn receive<T: DeserializeOwned>(&self) -> io::Result<(T, Option<OwnedFd>)> {
        let mut length = [0_u8; 4];
        let mut channel = None;
        let keep = |descriptor| channel = Some(descriptor);
        let received = rights::receive(&self.socket, &mut length, RecvFlags::empty(), keep)?;
        self.read_exact(&mut length[received..])?;
        let length = u32::from_le_bytes(length);
        if length > PLAN_LIMIT {
            return Err(io::Error::other(format!("the plan has {length} bytes, more than {PLAN_LIMIT}")));
        }
        let mut body = vec![0; length as usize];
        self.read_exact(&mut body)?;
        let received = serde_json::from_slice(&body).map_err(io::Error::other)?;
        Ok((received, channel))
    }

    /// Reads exactly this much of what follows the plan.
    pub fn read_exact(&self, buffer: &mut [u8]) -> io::Result<()> {
        SocketReader(self.socket.as_fd()).read_exact(buffer)
    }

    pub fn send(&self, message: &Message, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let bytes = frame(message);
        let descriptors: Vec<BorrowedFd<'_>> = descriptor.into_iter().collect();
        rights::send(&self.socket, &bytes, &descriptors)?;
        Ok(())
    }

    /// Tells why the run cannot go on, and ends this process.
    pub fn fail(&self, failed: &Failed) -> ! {
        // Where the server is gone there is nobody to tell.
        let _ = self.send(&Message::Failed(failed.0.clone()), None);
        sys::exit_now(1)
    }
}

impl AsFd for Reporter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

struct SocketReader<'a>(BorrowedFd<'a>);

impl Read for SocketReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(self.0, buffer)?)
    }
}
