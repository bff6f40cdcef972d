//! System calls that a filter holds up until a listener has answered.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use super::check;

/// Hands a descriptor over and ends the call with it, in one step (Linux 5.14).
const ADD_DESCRIPTOR_AND_SEND: u32 = 2;

/// A call that waits for its answer.
pub struct Held {
    id: u64,
    /// Its arguments, as the kernel took them: the caller cannot change them any more.
    pub arguments: [u64; 6],
}

/// Waits for the next call.
pub fn receive(listener: BorrowedFd<'_>) -> io::Result<Held> {
    // SAFETY: an all-zero structure is valid, plain data, and what the kernel wants to find.
    let mut asked: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the request names the structure's size, and the kernel fills the live local.
    check(libc::c_long::from(unsafe {
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut asked)
    }))?;
    Ok(Held { id: asked.id, arguments: asked.data.args })
}

impl Held {
    /// Ends the call with a copy of a descriptor. The caller may be gone already: an error says so, and does not matter.
    pub fn give(self, listener: BorrowedFd<'_>, descriptor: &OwnedFd, close_on_exec: bool) -> io::Result<()> {
        let flags = if close_on_exec { libc::O_CLOEXEC } else { 0 };
        let answer = libc::seccomp_notif_addfd {
            id: self.id,
            flags: ADD_DESCRIPTOR_AND_SEND,
            srcfd: descriptor.as_raw_fd().unsigned_abs(),
            newfd: 0,
            newfd_flags: flags.unsigned_abs(),
        };
        // SAFETY: the request names the structure's size, and the kernel reads the live local.
        check(libc::c_long::from(unsafe {
            libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw const answer)
        }))
        .map(drop)
    }

    /// Ends the call with an error number.
    pub fn refuse(self, listener: BorrowedFd<'_>, errno: i32) -> io::Result<()> {
        let answer = libc::seccomp_notif_resp { id: self.id, val: 0, error: -errno, flags: 0 };
        // SAFETY: as in `give`.
        check(libc::c_long::from(unsafe {
            libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const answer)
        }))
        .map(drop)
    }
}
