//! Wrappers for the system calls of the broker that no dependency wraps. All unsafe code of the broker lives here.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::Pid;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Watches a descriptor from the current runtime.
pub fn watched(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is an open descriptor and stays the same one until it is dropped, which the `AsyncFd` that
    // owns it does last.
    Ok(unsafe { AsyncFd::register_with_interest(fd, interest) }?)
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
