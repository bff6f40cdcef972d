//! Wrappers for the system calls of the broker that no dependency wraps. All unsafe code of the broker lives here.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::Pid;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A system call that waits for an answer.
#[derive(Clone, Copy, Debug)]
pub struct Notification {
    /// Names the waiting call for as long as it waits.
    pub id: u64,
    /// The thread that made it, as this process sees it.
    pub thread: Pid,
    /// Number of the call.
    pub number: i32,
    /// Its arguments.
    pub args: [u64; 6],
}

/// What a waiting call gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The kernel carries it out.
    Continue,
    /// It returns 0.
    Done,
    /// It fails.
    Fail(Errno),
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Watches a descriptor from the current runtime.
pub fn watched(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is an open descriptor and stays the same one until it is dropped, which the `AsyncFd` that
    // owns it does last.
    Ok(unsafe { AsyncFd::register_with_interest(fd, interest) }?)
}

/// Takes the next waiting call. Blocks when there is none, so ask poll(2) before.
pub fn receive(listener: impl AsFd) -> io::Result<Notification> {
    // SAFETY: all-zero is valid plain data, and what the kernel asks for.
    let mut asked: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    let fd = listener.as_fd().as_raw_fd();
    // SAFETY: the request's number carries the size of this structure, which outlives the call.
    check(unsafe { libc::ioctl(fd, libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut asked) })?;
    // 0 stands for a thread that this process cannot see: outside of its process namespace.
    let thread = i32::try_from(asked.pid).ok().and_then(Pid::from_raw);
    let thread = thread.ok_or_else(|| io::Error::other("a call from outside"))?;
    Ok(Notification { id: asked.id, thread, number: asked.data.nr, args: asked.data.args })
}

/// Whether the call still waits: then its thread has been there all the time since it was received.
pub fn still_waits(listener: impl AsFd, id: u64) -> bool {
    let fd = listener.as_fd().as_raw_fd();
    // SAFETY: the kernel reads one number, which outlives the call.
    unsafe { libc::ioctl(fd, libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) == 0 }
}

/// Answers a waiting call. One that does not wait any more is no error.
pub fn answer(listener: impl AsFd, id: u64, reply: Reply) -> io::Result<()> {
    let (error, flags) = match reply {
        Reply::Continue => (0, u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).unwrap_or(1)),
        Reply::Done => (0, 0),
        Reply::Fail(errno) => (-errno.raw_os_error(), 0),
    };
    let mut response = libc::seccomp_notif_resp { id, val: 0, error, flags };
    let fd = listener.as_fd().as_raw_fd();
    // SAFETY: the request's number carries the size of this structure, which outlives the call.
    match check(unsafe { libc::ioctl(fd, libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut response) }) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        other => other,
    }
}

/// Puts a copy of `source` in the place of descriptor `number` of the thread whose call waits.
pub fn replace(
    listener: impl AsFd,
    id: u64,
    source: impl AsFd,
    number: u32,
    close_on_exec: bool,
) -> io::Result<()> {
    let flags = u32::try_from(libc::SECCOMP_ADDFD_FLAG_SETFD).unwrap_or(1);
    add_descriptor(listener, id, source, (flags, number), close_on_exec)
}

/// Ends a waiting call with a copy of `source` as its result (Linux 5.14).
pub fn give(listener: impl AsFd, id: u64, source: impl AsFd, close_on_exec: bool) -> io::Result<()> {
    let flags = u32::try_from(libc::SECCOMP_ADDFD_FLAG_SEND).unwrap_or(2);
    add_descriptor(listener, id, source, (flags, 0), close_on_exec)
}

fn add_descriptor(
    listener: impl AsFd,
    id: u64,
    source: impl AsFd,
    (flags, newfd): (u32, u32),
    close_on_exec: bool,
) -> io::Result<()> {
    let newfd_flags = if close_on_exec { libc::O_CLOEXEC.unsigned_abs() } else { 0 };
    let srcfd = source.as_fd().as_raw_fd().unsigned_abs();
    let request = libc::seccomp_notif_addfd { id, flags, srcfd, newfd, newfd_flags };
    let fd = listener.as_fd().as_raw_fd();
    // SAFETY: the request's number carries the size of this structure, which outlives the call; both descriptors are
    // open for its length.
    check(unsafe { libc::ioctl(fd, libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw const request) })
}

/// Reads another process's memory. Gives the bytes that were there.
pub fn read_memory(thread: Pid, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let address = usize::try_from(address).map_err(|_| io::Error::from(Errno::FAULT))?;
    let ours = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let theirs = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: buffer.len() };
    let pid = thread.as_raw_nonzero().get();
    // SAFETY: the kernel writes into `buffer` and nowhere else; the other address is looked up in the other process.
    let read = unsafe { libc::process_vm_readv(pid, &raw const ours, 1, &raw const theirs, 1, 0) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

/// Reads a socket option as bytes.
pub fn option(socket: impl AsFd, level: i32, name: i32, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = libc::socklen_t::try_from(buffer.len()).unwrap_or(libc::socklen_t::MAX);
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the pointer and the length describe one buffer that outlives the call.
    check(unsafe { libc::getsockopt(fd, level, name, buffer.as_mut_ptr().cast(), &raw mut length) })?;
    Ok(length as usize)
}

/// Sets a socket option from bytes.
pub fn set_option(socket: impl AsFd, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    let length = libc::socklen_t::try_from(value.len()).unwrap_or(libc::socklen_t::MAX);
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the pointer and the length describe one buffer that outlives the call.
    check(unsafe { libc::setsockopt(fd, level, name, value.as_ptr().cast(), length) })
}

/// Lets a socket receive only what the program passes, for good: nobody can take it off again.
pub fn lock(socket: impl AsFd, program: &[libc::sock_filter]) -> io::Result<()> {
    let len = libc::c_ushort::try_from(program.len()).map_err(|_| io::Error::from(Errno::INVAL))?;
    let description = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    let fd = socket.as_fd().as_raw_fd();
    let size = libc::socklen_t::try_from(size_of_val(&description)).unwrap_or(0);
    // SAFETY: the description points to `len` instructions that outlive the call; the kernel copies them and writes
    // nothing.
    check(unsafe {
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, (&raw const description).cast(), size)
    })?;
    set_option(socket, libc::SOL_SOCKET, libc::SO_LOCK_FILTER, &1_i32.to_ne_bytes())
}
