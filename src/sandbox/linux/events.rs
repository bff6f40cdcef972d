//! What has happened on a descriptor, without waiting for anything.

use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec};

/// Which of these events have come by now; errors and hang-ups are told without being asked for.
pub fn so_far(descriptor: BorrowedFd<'_>, asked: PollFlags) -> rustix::io::Result<PollFlags> {
    let mut watched = [PollFd::from_borrowed_fd(descriptor, asked)];
    rustix::event::poll(&mut watched, Some(&Timespec::default()))?;
    Ok(watched[0].revents())
}
