//! System calls that a filter asks about: receiving, looking into the caller, answering. For the launcher's supervisors
//! and for the server's broker.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create};
use rustix::io::Errno;
use rustix::process::Pid;

/// Longest path that the kernel takes, in bytes.
const LONGEST_PATH: usize = 4096;

/// A call that waits for an answer.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Names it for as long as it waits.
    pub id: u64,
    /// The thread that made it, as this process sees it.
    pub thread: Pid,
    /// Its number.
    pub number: libc::c_long,
    /// Its arguments.
    pub args: [u64; 6],
}

/// What a waiting call gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The kernel carries it out.
    Continue,
    /// It returns this.
    Value(i64),
    /// It fails.
    Fail(Errno),
}

/// Which descriptor of the caller a copy becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The lowest that is free.
    Free,
    /// The same, which is the result of the call too (Linux 5.14).
    FreeAndResult,
    /// This one, in the place of what it is now.
    Number(u32),
}

fn check(result: libc::c_int) -> Result<libc::c_int, Errno> {
    if result < 0 {
        Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
    } else {
        Ok(result)
    }
}

/// Takes the next waiting call. Blocks when there is none, so ask poll(2) before.
pub fn receive(listener: impl AsFd) -> Result<Call, Errno> {
    // SAFETY: all-zero is valid plain data, and what the kernel asks for.
    let mut asked: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    let fd = listener.as_fd().as_raw_fd();
    // SAFETY: the request's number carries the size of this structure, which outlives the call.
    check(unsafe { libc::ioctl(fd, libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut asked) })?;
    // 0 stands for a thread that this process cannot see: outside of its process namespace.
    let thread = i32::try_from(asked.pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    Ok(Call { id: asked.id, thread, number: asked.data.nr.into(), args: asked.data.args })
}

/// Whether the call still waits: then its thread has been there all the time since it was received, and what was read
/// through its number was its own.
pub fn still_waits(listener: impl AsFd, id: u64) -> bool {
    let fd = listener.as_fd().as_raw_fd();
    // SAFETY: the kernel reads one number, which outlives the call.
    unsafe { libc::ioctl(fd, libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) == 0 }
}

/// Answers a waiting call. One that does not wait any more needs none.
pub fn answer(listener: impl AsFd, id: u64, answer: Answer) -> Result<(), Errno> {
    let (val, error, flags) = match answer {
        Answer::Continue => (0, 0, u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).unwrap_or(1)),
        Answer::Value(value) => (value, 0, 0),
        Answer::Fail(errno) => (0, -errno.raw_os_error(), 0),
    };
    let mut response = libc::seccomp_notif_resp { id, val, error, flags };
    let fd = listener.as_fd().as_raw_fd();
    // SAFETY: the request's number carries the size of this structure, which outlives the call.
    match check(unsafe { libc::ioctl(fd, libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut response) }) {
        Ok(_) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Answers a waiting call with a copy of `source` as its result.
pub fn give(listener: impl AsFd, id: u64, source: impl AsFd, close_on_exec: bool) -> Result<(), Errno> {
    match add(&listener, id, &source, Place::FreeAndResult, close_on_exec) {
        Ok(_) => Ok(()),
        // An older kernel needs two steps; between them the call may be interrupted, and the caller keeps the copy.
        Err(Errno::INVAL) => {
            let number = add(&listener, id, &source, Place::Free, close_on_exec)?;
            self::answer(listener, id, Answer::Value(number.into()))
        }
        Err(error) => Err(error),
    }
}

/// Makes the memory file that a call asks for, with the seal, and answers the call with it. The name that the program gave
/// lies in its memory and is not looked at.
pub fn give_memory_file(listener: impl AsFd, call: &Call) -> Result<(), Errno> {
    let flags = u32::try_from(call.args[1] & 0xFFFF_FFFF).unwrap_or_default();
    let flags = MemfdFlags::from_bits_retain(flags);
    let file = memfd_create("memory", flags | MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL)?;
    give(listener, call.id, &file, flags.contains(MemfdFlags::CLOEXEC))
}

/// Puts a copy of `source` in the place of a descriptor of the caller.
pub fn replace(
    listener: impl AsFd,
    id: u64,
    source: impl AsFd,
    number: u32,
    close_on_exec: bool,
) -> Result<(), Errno> {
    add(&listener, id, &source, Place::Number(number), close_on_exec).map(drop)
}

fn add(
    listener: &impl AsFd,
    id: u64,
    source: &impl AsFd,
    place: Place,
    close_on_exec: bool,
) -> Result<i32, Errno> {
    let (flags, newfd) = match place {
        Place::Free => (0, 0),
        Place::FreeAndResult => (u32::try_from(libc::SECCOMP_ADDFD_FLAG_SEND).unwrap_or(2), 0),
        Place::Number(number) => (u32::try_from(libc::SECCOMP_ADDFD_FLAG_SETFD).unwrap_or(1), number),
    };
    let newfd_flags = if close_on_exec { libc::O_CLOEXEC.unsigned_abs() } else { 0 };
    let srcfd = source.as_fd().as_raw_fd().unsigned_abs();
    let request = libc::seccomp_notif_addfd { id, flags, srcfd, newfd, newfd_flags };
    let fd = listener.as_fd().as_raw_fd();
    // SAFETY: the request's number carries the size of this structure, which outlives the call; both descriptors are
    // open for its length.
    check(unsafe { libc::ioctl(fd, libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw const request) })
}

impl Call {
    /// A path in the caller's memory, as it stands now. What is not UTF-8 is read with replacements: such a name is
    /// none that anybody here looks for.
    pub fn text(&self, address: u64) -> Result<String, Errno> {
        const PAGE: u64 = 4096;
        let memory = self.memory()?;
        let mut text = Vec::new();
        let mut at = address;
        while text.len() < LONGEST_PATH {
            let mut chunk = [0_u8; 4096];
            // Not beyond the page: the next one may not be there.
            let wanted = usize::try_from(PAGE - at % PAGE).unwrap_or(chunk.len());
            let size = rustix::io::pread(&memory, &mut chunk[..wanted], at).map_err(|_| Errno::FAULT)?;
            if let Some(end) = chunk[..size].iter().position(|byte| *byte == 0) {
                text.extend_from_slice(&chunk[..end]);
                return Ok(String::from_utf8_lossy(&text).into_owned());
            }
            if size == 0 {
                return Err(Errno::FAULT);
            }
            text.extend_from_slice(&chunk[..size]);
            at += size as u64;
        }
        Err(Errno::NAMETOOLONG)
    }

    /// Bytes of the caller's memory.
    pub fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Errno> {
        let memory = self.memory()?;
        let read = rustix::io::pread(&memory, &mut *buffer, address).map_err(|_| Errno::FAULT)?;
        if read == buffer.len() { Ok(()) } else { Err(Errno::FAULT) }
    }

    /// Where a link of the caller's process leads to.
    pub fn link(&self, name: &str) -> Result<PathBuf, Errno> {
        use std::os::unix::ffi::OsStringExt;
        let link = rustix::fs::readlink(self.path(name), Vec::new()).map_err(|_| Errno::BADF)?;
        Ok(PathBuf::from(std::ffi::OsString::from_vec(link.into_bytes())))
    }

    /// The file that a link of the caller's process stands for, without opening it.
    pub fn open(&self, name: &str) -> Result<OwnedFd, Errno> {
        rustix::fs::open(self.path(name), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .map_err(|_| Errno::BADF)
    }

    fn memory(&self) -> Result<OwnedFd, Errno> {
        // A process may close itself to such looks; then nothing is done for it.
        rustix::fs::open(self.path("mem"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|_| Errno::PERM)
    }

    fn path(&self, name: &str) -> String {
        format!("/proc/{}/{name}", self.thread.as_raw_nonzero())
    }
}
