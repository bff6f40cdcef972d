//! One call of a script that the server answers, connect(2) above all: what it asks for, and what it gets. See the head of `broker` for why this is safe.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

use super::address::{Policy, Verdict};
use super::socket::{self, Kind, State};
use super::sys;
use crate::launcher::sys::notify::{self, Answer, Call};

/// Bytes of a `sockaddr_storage`: the kernel refuses longer addresses.
const LONGEST_ADDRESS: usize = 128;

/// Flag of `pidfd_open(2)` since Linux 6.9: any thread, not only a process.
const PIDFD_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL.unsigned_abs());

/// How often a connection that is being made is compared with the caller still being there.
const CALLER_CHECK: Duration = Duration::from_secs(1);

/// What is done about a call.
pub enum Next {
    /// It gets this at once.
    Reply(Answer),
    /// Nobody waits for an answer any more.
    Gone,
    /// The server's socket is connecting, and the caller waits for it.
    Wait(Connecting),
    /// The server connects the script's own socket, inside its network. That may block.
    Inside(Inside),
}

/// A connection of the script's own socket.
pub struct Inside {
    original: OwnedFd,
    destination: SocketAddr,
}

impl Inside {
    /// Connects. A script can make this take long, so it has a thread of its own.
    pub fn carry_out(self) -> Next {
        Next::Reply(match rustix::net::connect(&self.original, &self.destination) {
            Ok(()) => Answer::Value(0),
            Err(error) => Answer::Fail(error),
        })
    }
}

/// A connection that is being made for a caller that waits.
pub struct Connecting {
    twin: OwnedFd,
    caller: Caller,
}

/// The call's own descriptor, and how it was opened.
struct Caller {
    number: u32,
    blocks: bool,
    close_on_exec: bool,
    patience: Option<Duration>,
}

/// Decides, and begins what is to be done.
pub fn begin(listener: &AsyncFd<OwnedFd>, call: &Call, policy: &Policy) -> Next {
    match call.number {
        libc::SYS_connect => begin_connect(listener, call, policy),
        libc::SYS_listen => listen(listener, call),
        libc::SYS_memfd_create => memory_file(listener, call),
        _ => Next::Reply(Answer::Fail(Errno::NOSYS)),
    }
}

/// A kernel without the seal makes the file as it always has.
fn memory_file(listener: &AsyncFd<OwnedFd>, call: &Call) -> Next {
    match notify::give_memory_file(listener, call) {
        Ok(()) | Err(Errno::NOENT) => Next::Gone,
        Err(Errno::INVAL) => Next::Reply(Answer::Continue),
        Err(error) => Next::Reply(Answer::Fail(error)),
    }
}

/// Lets a socket listen that is not of the host's network. It is done here, on the very socket that was looked at.
fn listen(listener: &AsyncFd<OwnedFd>, call: &Call) -> Next {
    let original = duplicate(call);
    if !notify::still_waits(listener, call.id) {
        return Next::Gone;
    }
    #[expect(clippy::cast_possible_truncation, reason = "the kernel takes the low half of the argument")]
    let backlog = call.args[1] as i32;
    let done = original.and_then(|original| match socket::kind(&original) {
        Kind::Handed(_) => Err(Errno::INVAL),
        Kind::Own | Kind::Other => rustix::net::listen(&original, backlog),
    });
    Next::Reply(done.map_or_else(Answer::Fail, |()| Answer::Value(0)))
}

fn begin_connect(listener: &AsyncFd<OwnedFd>, call: &Call, policy: &Policy) -> Next {
    let address = match read_address(call) {
        Ok(Some(address)) => address,
        // Not an internet address, or one that the kernel refuses in its own words.
        Ok(None) => return Next::Reply(Answer::Continue),
        Err(error) => return Next::Reply(Answer::Fail(error)),
    };
    let original = duplicate(call);
    if !notify::still_waits(listener, call.id) {
        return Next::Gone;
    }
    let original = match original {
        Ok(original) => original,
        Err(Errno::BADF) => return Next::Reply(Answer::Fail(Errno::BADF)),
        Err(_) => return Next::Reply(Answer::Fail(Errno::ACCESS)),
    };
    match (policy.verdict(address), socket::kind(&original)) {
        (Verdict::Refused, _) => Next::Reply(Answer::Fail(Errno::ACCESS)),
        // Datagrams, and mistakes such as a connect(2) of a file: inside, in the kernel's own words.
        (_, Kind::Other) => Next::Reply(Answer::Continue),
        (_, Kind::Handed(State::Connected)) => Next::Reply(Answer::Fail(Errno::ISCONN)),
        (_, Kind::Handed(State::Connecting)) => Next::Reply(Answer::Fail(Errno::ALREADY)),
        // A socket of the host's network does not come back into the run's own.
        (Verdict::Inside, Kind::Handed(State::Closed)) => Next::Reply(Answer::Fail(Errno::NETUNREACH)),
        (Verdict::Inside, Kind::Own) => Next::Inside(Inside { original, destination: address }),
        (Verdict::Outside(_), Kind::Own) if socket::state(&original) != State::Closed => {
            Next::Inside(Inside { original, destination: address })
        }
        (Verdict::Outside(destination), Kind::Own | Kind::Handed(State::Closed)) => {
            connect(listener, call, &original, destination, policy)
                .unwrap_or_else(|error| Next::Reply(Answer::Fail(error)))
        }
    }
}

fn connect(
    listener: &AsyncFd<OwnedFd>,
    call: &Call,
    original: &OwnedFd,
    destination: SocketAddr,
    policy: &Policy,
) -> Result<Next, Errno> {
    if !policy.is_named(destination) && socket::is_own_address(destination).map_err(|error| errno(&error))? {
        return Err(Errno::ACCESS);
    }
    let caller = Caller::of(call, original);
    let twin = socket::twin(original, destination).map_err(|error| errno(&error))?;
    match rustix::net::connect(&twin, &destination) {
        Ok(()) => Ok(hand_over(listener, call.id, &twin, &caller, Answer::Value(0))),
        Err(Errno::INPROGRESS) if caller.blocks => Ok(Next::Wait(Connecting { twin, caller })),
        Err(Errno::INPROGRESS) => {
            Ok(hand_over(listener, call.id, &twin, &caller, Answer::Fail(Errno::INPROGRESS)))
        }
        Err(error) => Err(error),
    }
}

/// Puts the server's socket in the place of the caller's, and gives the answer that goes with it.
fn hand_over(listener: &AsyncFd<OwnedFd>, id: u64, twin: &OwnedFd, caller: &Caller, reply: Answer) -> Next {
    let placed = if caller.blocks { rustix::io::ioctl_fionbio(twin, false) } else { Ok(()) };
    let placed =
        placed.and_then(|()| notify::replace(listener, id, twin, caller.number, caller.close_on_exec));
    match placed {
        Ok(()) => Next::Reply(reply),
        Err(Errno::NOENT) => Next::Gone,
        Err(error) => Next::Reply(Answer::Fail(error)),
    }
}

impl Connecting {
    /// Waits until it is made or has failed, the caller's patience is at an end, or the caller is gone.
    pub async fn finish(self, listener: &AsyncFd<OwnedFd>, id: u64) -> Next {
        let Self { twin, caller } = self;
        let end = caller.patience.map(|patience| Instant::now() + patience);
        let Ok(twin) = sys::watched(twin, Interest::WRITABLE) else {
            return Next::Reply(Answer::Fail(Errno::NOBUFS));
        };
        loop {
            let check = Instant::now() + CALLER_CHECK;
            let until = end.map_or(check, |end| end.min(check));
            match tokio::time::timeout_at(until, twin.writable()).await {
                Ok(Ok(_)) => break,
                Ok(Err(error)) => return Next::Reply(Answer::Fail(errno(&error))),
                Err(_) if !notify::still_waits(listener, id) => return Next::Gone,
                Err(_) if end.is_some_and(|end| end <= Instant::now()) => {
                    let reply = Answer::Fail(Errno::INPROGRESS);
                    return hand_over(listener, id, &twin.into_inner(), &caller, reply);
                }
                Err(_) => {}
            }
        }
        let twin = twin.into_inner();
        match socket::outcome(&twin) {
            Ok(()) => hand_over(listener, id, &twin, &caller, Answer::Value(0)),
            Err(error) => Next::Reply(Answer::Fail(error)),
        }
    }
}

impl Caller {
    fn of(call: &Call, original: &OwnedFd) -> Self {
        let number = descriptor(call);
        let flags = rustix::fs::fcntl_getfl(original).unwrap_or(OFlags::empty());
        Self {
            number,
            blocks: !flags.contains(OFlags::NONBLOCK),
            close_on_exec: closes_on_exec(call.thread, number).unwrap_or(true),
            patience: socket::patience(original),
        }
    }
}

/// Whether a descriptor of another process is closed at exec. Without a process file system nobody can tell.
fn closes_on_exec(thread: Pid, number: u32) -> Option<bool> {
    let info = fs::read_to_string(format!("/proc/{}/fdinfo/{number}", thread.as_raw_nonzero())).ok()?;
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
    let flags = u32::from_str_radix(flags.trim(), 8).ok()?;
    Some(flags & libc::O_CLOEXEC.unsigned_abs() != 0)
}

/// The kernel takes the low half of the argument.
#[expect(clippy::cast_possible_truncation, reason = "as the kernel does")]
fn descriptor(call: &Call) -> u32 {
    call.args[0] as u32
}

/// A descriptor of our own for the socket of the call.
fn duplicate(call: &Call) -> Result<OwnedFd, Errno> {
    let process = match pidfd_open(call.thread, PIDFD_THREAD) {
        Err(Errno::INVAL) => pidfd_open(leader(call.thread).ok_or(Errno::SRCH)?, PidfdFlags::empty())?,
        other => other?,
    };
    let number = i32::try_from(descriptor(call)).map_err(|_| Errno::BADF)?;
    pidfd_getfd(process, number, PidfdGetfdFlags::empty())
}

/// The process that a thread belongs to. Its descriptors are the thread's, unless the thread has seen to have its
/// own: then another socket's options are copied, which is the script's affair.
fn leader(thread: Pid) -> Option<Pid> {
    let status = fs::read_to_string(format!("/proc/{}/status", thread.as_raw_nonzero())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    line.trim().parse().ok().and_then(Pid::from_raw)
}

/// The address of the call, as it stands now in the caller's memory; `None` where it is no internet address. This copy
/// is the only one that is ever looked at.
fn read_address(call: &Call) -> Result<Option<SocketAddr>, Errno> {
    #[expect(clippy::cast_possible_truncation, reason = "the kernel takes the low half of the argument")]
    let length = usize::try_from(call.args[2] as i32).unwrap_or(0);
    if !(2..=LONGEST_ADDRESS).contains(&length) {
        return Ok(None);
    }
    let mut buffer = [0; LONGEST_ADDRESS];
    match sys::read_memory(call.thread, call.args[1], &mut buffer[..length]) {
        Ok(read) if read == length => Ok(internet_address(&buffer[..length])),
        Ok(_) => Err(Errno::FAULT),
        Err(error) if error.raw_os_error() == Some(libc::EFAULT) => Err(Errno::FAULT),
        Err(_) => Err(Errno::ACCESS),
    }
}

fn internet_address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    match family {
        libc::AF_INET => {
            let ip: [u8; 4] = bytes.get(4..8).filter(|_| bytes.len() >= 16)?.try_into().ok()?;
            Some(SocketAddr::new(Ipv4Addr::from(ip).into(), port))
        }
        libc::AF_INET6 => {
            let ip: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            let scope =
                bytes.get(24..28).and_then(|scope| scope.try_into().ok()).map_or(0, u32::from_ne_bytes);
            Some(SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, scope).into())
        }
        _ => None,
    }
}

fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_the_kernel_does() {
        let mut v4 = vec![0; 16];
        v4[..2].copy_from_slice(&2_u16.to_ne_bytes());
        v4[2..8].copy_from_slice(&[1, 187, 93, 184, 216, 34]);
        assert_eq!(internet_address(&v4), Some("93.184.216.34:443".parse().expect("an address")));
        assert_eq!(internet_address(&v4[..15]), None);
        let mut v6 = vec![0; 28];
        v6[..2].copy_from_slice(&10_u16.to_ne_bytes());
        v6[3] = 80;
        v6[8..10].copy_from_slice(&[0xfd, 0]);
        v6[23] = 1;
        assert_eq!(internet_address(&v6), Some("[fd00::1]:80".parse().expect("an address")));
        // Without a scope, as before RFC 2553.
        assert_eq!(internet_address(&v6[..24]), Some("[fd00::1]:80".parse().expect("an address")));
        assert_eq!(internet_address(&v6[..23]), None);
        assert_eq!(internet_address(&[1, 0]), None);
        assert_eq!(internet_address(&[0; 16]), None);
    }
}
