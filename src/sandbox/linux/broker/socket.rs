//! Sockets that the broker makes for a script: the twin of the script's own one, in the host's network, and tied to the
//! one peer that it is connected to. The head of `broker` says by what, and why that has to be.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::sys;
use crate::launcher::sys::landlock_abi;

/// `tcpi_state` of a connection that is being made.
const SYN_SENT: u8 = 2;
/// `tcpi_state` of a socket that is not connected.
const CLOSE: u8 = 7;

/// Since Linux 5.14: a number that tells network namespaces apart.
const SO_NETNS_COOKIE: i32 = 71;

/// First ABI of Landlock that knows TCP ports.
const PORTS_SINCE: u8 = 4;

/// What a script's socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A TCP socket of the script's own network.
    Own,
    /// A TCP socket of the host's network, which was handed in.
    Handed(State),
    /// Anything else: it never leaves its network.
    Other,
}

/// How far a TCP socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not connected, or not any more.
    Closed,
    /// On the way.
    Connecting,
    /// Connected, or listening.
    Connected,
}

/// Looks at a script's socket.
pub fn kind(socket: impl AsFd) -> Kind {
    let is_tcp = sockopt::socket_type(&socket) == Ok(SocketType::STREAM)
        && matches!(sockopt::socket_domain(&socket), Ok(AddressFamily::INET | AddressFamily::INET6))
        && sockopt::socket_protocol(&socket) == Ok(Some(rustix::net::ipproto::TCP));
    match (is_tcp, is_of_host(&socket)) {
        (false, _) => Kind::Other,
        (true, true) => Kind::Handed(state(socket)),
        (true, false) => Kind::Own,
    }
}

/// Whether a socket belongs to this process's network. An older kernel does not tell: then the lock does, which a
/// script may imitate to its own harm.
fn is_of_host(socket: impl AsFd) -> bool {
    static COOKIE: OnceLock<Option<u64>> = OnceLock::new();
    let ours = COOKIE.get_or_init(|| {
        let flags = SocketFlags::CLOEXEC;
        cookie(rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None).ok()?)
    });
    match ours {
        Some(ours) => cookie(socket) == Some(*ours),
        None => number(socket, libc::SOL_SOCKET, libc::SO_LOCK_FILTER) == Some(1),
    }
}

fn cookie(socket: impl AsFd) -> Option<u64> {
    let mut value = [0; 8];
    sys::option(socket, libc::SOL_SOCKET, SO_NETNS_COOKIE, &mut value).ok()?;
    Some(u64::from_ne_bytes(value))
}

/// How far a TCP socket is.
pub fn state(socket: impl AsFd) -> State {
    let mut state = [CLOSE];
    let _ = sys::option(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut state);
    match state[0] {
        CLOSE => State::Closed,
        SYN_SENT => State::Connecting,
        _ => State::Connected,
    }
}

/// Whether connecting there would lead to this machine itself; or why nobody can connect there. Sends nothing.
pub fn is_own_address(destination: SocketAddr) -> io::Result<bool> {
    let any: IpAddr = match destination {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // The kernel talks to itself from the very address that it talks to.
    let probe = UdpSocket::bind((any, 0))?;
    probe.connect(destination)?;
    Ok(probe.local_addr()?.ip().to_canonical() == destination.ip().to_canonical())
}

/// A socket in this process's network with the options of the script's, which can talk to `destination` only. It does
/// not block.
pub fn twin(original: impl AsFd, destination: SocketAddr) -> io::Result<OwnedFd> {
    let family = match destination {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let twin = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    copy_option(&original, &twin, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 4);
    hold_port(&twin, family)?;
    copy_options(&original, &twin);
    lock(&twin, destination)?;
    Ok(twin)
}

/// Tries on a socket that goes nowhere whether it can be guarded.
pub fn guard() -> io::Result<()> {
    let socket =
        rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    lock(&socket, SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 1))
}

/// Lets the socket hear its peer only. Newer kernels want a capability for that (2026, in all maintained series); then
/// the run's Landlock rules, which refuse every connect(2) of its own, have to do.
fn lock(twin: &OwnedFd, peer: SocketAddr) -> io::Result<()> {
    static PORTS: OnceLock<bool> = OnceLock::new();
    let guarded = || *PORTS.get_or_init(|| landlock_abi().is_ok_and(|abi| abi >= PORTS_SINCE));
    match sys::lock(twin, &only_from(peer)) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) && guarded() => Ok(()),
        other => other,
    }
}

/// Binds to a free port by its number: then the kernel never gives it up, and bind(2) fails with EINVAL for as long as
/// the socket lives. So a script cannot take a port of the host.
fn hold_port(twin: &OwnedFd, family: AddressFamily) -> io::Result<()> {
    let any: IpAddr = if family == AddressFamily::INET {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let finder = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    for socket in [&finder, twin] {
        sockopt::set_socket_reuseaddr(socket, true)?;
    }
    if sockopt::ipv6_v6only(twin) == Ok(true) {
        sockopt::set_ipv6_v6only(&finder, true)?;
    }
    rustix::net::bind(&finder, &SocketAddr::new(any, 0))?;
    let found = SocketAddr::try_from(rustix::net::getsockname(&finder)?)?;
    rustix::net::bind(twin, &SocketAddr::new(any, found.port()))?;
    sockopt::set_socket_reuseaddr(twin, false)?;
    Ok(())
}

/// Options that a script may have set, with the length of their values in bytes.
const OPTIONS: [(i32, i32, usize); 18] = [
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 4),
    (libc::SOL_SOCKET, libc::SO_OOBINLINE, 4),
    (libc::SOL_SOCKET, libc::SO_RCVLOWAT, 4),
    (libc::SOL_SOCKET, libc::SO_PRIORITY, 4),
    (libc::SOL_SOCKET, libc::SO_LINGER, 8),
    (libc::SOL_SOCKET, libc::SO_RCVTIMEO, 16),
    (libc::SOL_SOCKET, libc::SO_SNDTIMEO, 16),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY, 4),
    (libc::IPPROTO_TCP, libc::TCP_CORK, 4),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 4),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 4),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 4),
    (libc::IPPROTO_TCP, libc::TCP_SYNCNT, 4),
    (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 4),
    (libc::IPPROTO_IP, libc::IP_TOS, 4),
    (libc::IPPROTO_IP, libc::IP_TTL, 4),
    (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, 4),
    (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, 4),
];

fn copy_options(original: impl AsFd, twin: impl AsFd) {
    for (level, name, length) in OPTIONS {
        copy_option(&original, &twin, level, name, length);
    }
    copy_buffer_sizes(original, twin);
}

/// Copies an option that differs. One that cannot be set is a matter of speed or comfort, not of who is reached.
fn copy_option(original: impl AsFd, twin: impl AsFd, level: i32, name: i32, length: usize) {
    let (mut wanted, mut is) = ([0; 16], [0; 16]);
    let (wanted, is) = (&mut wanted[..length], &mut is[..length]);
    let read =
        sys::option(original, level, name, wanted).is_ok() && sys::option(&twin, level, name, is).is_ok();
    if read && wanted != is {
        let _ = sys::set_option(twin, level, name, wanted);
    }
}

/// Since Linux 5.14: which buffer sizes were set by hand, as bits.
const SO_BUF_LOCK: i32 = 72;

/// Sizes that nobody set stay the kernel's to tune.
fn copy_buffer_sizes(original: impl AsFd, twin: impl AsFd) {
    let by_hand = number(&original, libc::SOL_SOCKET, SO_BUF_LOCK);
    for (name, bit) in [(libc::SO_SNDBUF, 1), (libc::SO_RCVBUF, 2)] {
        let (wanted, is) = (number(&original, libc::SOL_SOCKET, name), number(&twin, libc::SOL_SOCKET, name));
        let set = by_hand.map_or(wanted != is, |bits| bits & bit != 0);
        if let Some(size) = wanted.filter(|_| set) {
            // The kernel doubles what it is told and tells what it has.
            let _ = sys::set_option(&twin, libc::SOL_SOCKET, name, &(size / 2).to_ne_bytes());
        }
    }
}

fn number(socket: impl AsFd, level: i32, name: i32) -> Option<i32> {
    let mut value = [0; 4];
    sys::option(socket, level, name, &mut value).ok()?;
    Some(i32::from_ne_bytes(value))
}

/// How long a blocking connect(2) of the script's may take, where it has set that.
pub fn patience(original: impl AsFd) -> Option<std::time::Duration> {
    sockopt::socket_timeout(original, sockopt::Timeout::Send).ok().flatten()
}

/// The error with which connecting ended, or that it did not fail.
pub fn outcome(twin: impl AsFd) -> Result<(), Errno> {
    sockopt::socket_error(twin).and_then(|outcome| outcome)
}

/// Reading from this offset on, a socket filter sees the network header (`SKF_NET_OFF` of `linux/filter.h`).
const NETWORK_HEADER: u32 = 0xfff0_0000;
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const AND: u16 = 0x54;
const JUMP_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;

/// A program that passes what comes from this address and port. It sees each segment from its TCP header on.
fn only_from(peer: SocketAddr) -> Vec<libc::sock_filter> {
    let (version, start, words) = match peer.ip().to_canonical() {
        IpAddr::V4(ip) => (0x40, 12, vec![u32::from(ip)]),
        IpAddr::V6(ip) => (0x60, 8, ip.octets().chunks(4).map(word).collect()),
    };
    // Comparisons, each a load and a jump, in the order in which they are made.
    let mut checks = vec![(LOAD_BYTE, NETWORK_HEADER, Some(0xf0), version)];
    for (at, word) in (start..).step_by(4).zip(words) {
        checks.push((LOAD_WORD, NETWORK_HEADER + at, None, word));
    }
    checks.push((LOAD_HALF, 0, None, u32::from(peer.port())));
    let insn = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
    let (mut program, mut beyond) = (vec![insn(RETURN, 0, u32::MAX), insn(RETURN, 0, 0)], 1);
    for (load, at, mask, wanted) in checks.into_iter().rev() {
        let mut block = vec![insn(load, 0, at)];
        block.extend(mask.map(|mask| insn(AND, 0, mask)));
        block.push(insn(JUMP_EQUAL, beyond, wanted));
        beyond += u8::try_from(block.len()).unwrap_or(u8::MAX);
        program.splice(0..0, block);
    }
    program
}

fn word(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |word, byte| (word << 8) | u32::from(*byte))
}
