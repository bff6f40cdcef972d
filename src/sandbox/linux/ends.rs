//! The ends of launches: what a backend that closes waits for. Knows no plans and no programs.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Signal;

/// What tells that nothing of one launch is left, held beside whoever uses the launch.
pub enum End {
    /// The first process of a process namespace: the kernel ends it last.
    Process(OwnedFd),
    /// A socket that a monitor holds until it has ended everything.
    Monitor(UnixStream),
}

impl End {
    fn waits_for(&self) -> PollFd<'_> {
        match self {
            Self::Process(pidfd) => PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN),
            // That the other side is closed is always told; words that are still unread do not count.
            Self::Monitor(socket) => PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::empty()),
        }
    }

    fn order(&self) {
        let _ = match self {
            Self::Process(pidfd) => {
                rustix::process::pidfd_send_signal(pidfd, Signal::KILL).map_err(io::Error::from)
            }
            Self::Monitor(socket) => socket.shutdown(std::net::Shutdown::Write),
        };
    }
}

/// The launches of one backend that have not ended, as far as anybody has looked.
#[derive(Clone, Default)]
pub struct Ends(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    ends: Vec<End>,
    closed: bool,
}

impl Ends {
    /// Adds one, and forgets those that have come. After the closing it is ended at once.
    pub fn add(&self, end: End) {
        let mut known = self.known();
        forget_those_that_came(&mut known.ends, Some(&Timespec::default()));
        if known.closed {
            end.order();
        }
        known.ends.push(end);
    }

    /// Forgets those that have come.
    pub fn tidy(&self) {
        forget_those_that_came(&mut self.known().ends, Some(&Timespec::default()));
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends what still lives, and waits until nothing of it is left. A thread of its own waits, for the dropped future too.
    pub async fn close(&self) {
        let mut ends = {
            let mut known = self.known();
            known.closed = true;
            std::mem::take(&mut known.ends)
        };
        ends.iter().for_each(End::order);
        let (done, waiting) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            while !ends.is_empty() && forget_those_that_came(&mut ends, None) {}
            let _ = done.send(());
        });
        let _ = waiting.await;
    }
}

/// Waits for the next end at most this long, without a limit for `None`. False where the kernel does not tell.
fn forget_those_that_came(ends: &mut Vec<End>, limit: Option<&Timespec>) -> bool {
    let mut watched: Vec<_> = ends.iter().map(End::waits_for).collect();
    match rustix::event::poll(&mut watched, limit) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(_) => return false,
    }
    let mut came = watched.iter().map(|end| !end.revents().is_empty()).collect::<Vec<_>>().into_iter();
    ends.retain(|_| !came.next().unwrap_or(false));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn closing_ends_what_lives_and_waits_for_it() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().expect("started");
        let pid = rustix::process::Pid::from_child(&child);
        let flags = rustix::process::PidfdFlags::empty();
        let ends = Ends::default();
        ends.add(End::Process(rustix::process::pidfd_open(pid, flags).expect("opened")));
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        ends.add(End::Monitor(ours));
        let monitor = std::thread::spawn(move || {
            use std::io::{Read, Write};
            let mut socket = theirs;
            socket.write_all(b"words that nobody reads").expect("written");
            // The order is the end of input.
            socket.read_to_end(&mut Vec::new()).expect("read");
            let gone = std::time::Instant::now();
            drop(socket);
            gone
        });
        ends.close().await;
        let told = std::time::Instant::now();
        assert!(monitor.join().expect("no panic") <= told);
        assert!(child.try_wait().expect("asked").is_some_and(|status| !status.success()));
        // What has come is not kept.
        assert!(ends.known().ends.is_empty());
        let mut early = std::process::Command::new("true").spawn().expect("started");
        let others = Ends::default();
        let pid = rustix::process::Pid::from_child(&early);
        others.add(End::Process(rustix::process::pidfd_open(pid, flags).expect("opened")));
        early.wait().expect("ended");
        others.tidy();
        assert!(others.known().ends.is_empty());
        // What is started meanwhile ends as well.
        let mut late = std::process::Command::new("sleep").arg("600").spawn().expect("started");
        let pid = rustix::process::Pid::from_child(&late);
        ends.add(End::Process(rustix::process::pidfd_open(pid, flags).expect("opened")));
        assert!(!late.wait().expect("ended").success());
    }
}
