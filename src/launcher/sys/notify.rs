//! System calls that a filter asks about: receiving, looking into the caller, answering.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Longest path that the kernel takes, in bytes.
const LONGEST_PATH: usize = 4096;

/// A call that waits for an answer.
pub struct Call {
    id: u64,
    /// The thread that made it.
    thread: u32,
    /// Its number.
    pub number: libc::c_long,
    /// Its arguments.
    pub args: [u64; 6],
}

/// What a waiting call gets.
#[derive(Clone, Copy)]
pub enum Answer {
    /// The kernel carries it out.
    Continue,
    /// It returns this.
    Value(i64),
    /// It fails.
    Fail(Errno),
}

fn check(result: libc::c_int) -> Result<libc::c_int, Errno> {
    if result < 0 {
        Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
    } else {
        Ok(result)
    }
}

/// Takes the next waiting call. Blocks when there is none, so ask poll(2) before.
pub fn receive(listener: &OwnedFd) -> Result<Call, Errno> {
    // SAFETY: all-zero is valid plain data, and what the kernel asks for.
    let mut asked: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the request's number carries the size of this structure, which outlives the call.
    check(unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut asked) })?;
    Ok(Call { id: asked.id, thread: asked.pid, number: asked.data.nr.into(), args: asked.data.args })
}

/// Whether the call still waits: then its thread has been there all the time since it was received, and what was read
/// through its number was its own.
pub fn still_waits(listener: &OwnedFd, call: &Call) -> bool {
    // SAFETY: the kernel reads one number, which outlives the call.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const call.id) == 0 }
}

/// Answers a waiting call. One that does not wait any more needs none.
pub fn answer(listener: &OwnedFd, call: &Call, answer: Answer) {
    let (val, error, flags) = match answer {
        Answer::Continue => (0, 0, u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).unwrap_or(1)),
        Answer::Value(value) => (value, 0, 0),
        Answer::Fail(errno) => (0, -errno.raw_os_error(), 0),
    };
    let mut response = libc::seccomp_notif_resp { id: call.id, val, error, flags };
    // SAFETY: the request's number carries the size of this structure, which outlives the call.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut response) };
}

/// Puts a copy of a descriptor into the process of the waiting call; tells its number there.
pub fn hand_over(
    listener: &OwnedFd,
    call: &Call,
    file: BorrowedFd<'_>,
    close_on_exec: bool,
) -> Result<i32, Errno> {
    let request = libc::seccomp_notif_addfd {
        id: call.id,
        flags: 0,
        srcfd: file.as_raw_fd().unsigned_abs(),
        newfd: 0,
        newfd_flags: if close_on_exec { libc::O_CLOEXEC.unsigned_abs() } else { 0 },
    };
    // SAFETY: the request's number carries the size of this structure, which outlives the call; both descriptors are
    // open for its length.
    check(unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw const request) })
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
        format!("/proc/{}/{name}", self.thread)
    }
}
