use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType};

use super::socket::{Kind, State, kind, state, twin};
use super::*;

/// A socket as a script makes one.
fn original() -> OwnedFd {
    rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket")
}

/// A listener that greets, and its address.
fn greeter() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bound");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.and_then(|mut stream| stream.write_all(b"hello"));
        }
    });
    address
}

fn connected(peer: SocketAddr) -> OwnedFd {
    let socket = twin(original(), peer).expect("a twin");
    rustix::io::ioctl_fionbio(&socket, false).expect("blocking");
    rustix::net::connect(&socket, &peer).expect("connected");
    socket
}

/// Whether sockets are locked here: newer kernels want a capability for that. Landlock does not hold these tests.
fn is_locked(socket: &OwnedFd) -> bool {
    let mut value = [0; 4];
    let read = sys::option(socket, libc::SOL_SOCKET, libc::SO_LOCK_FILTER, &mut value);
    let locked = read.is_ok() && i32::from_ne_bytes(value) == 1;
    assert!(locked || !rustix::process::geteuid().is_root(), "root can lock sockets on every kernel");
    locked
}

fn disconnect(socket: &OwnedFd) {
    rustix::net::connect_unspec(socket).expect("disconnected");
}

#[test]
fn a_twin_talks_to_its_peer() {
    let socket = connected(greeter());
    assert_eq!(kind(&socket), Kind::Handed(State::Connected));
    let mut text = String::new();
    TcpStream::from(socket).read_to_string(&mut text).expect("a greeting");
    assert_eq!(text, "hello");
}

#[test]
fn a_twin_that_is_connected_anew_hears_nobody_else() {
    let (peer, other) = (greeter(), greeter());
    let socket = connected(peer);
    if !is_locked(&socket) {
        return;
    }
    disconnect(&socket);
    assert_eq!(state(&socket), State::Closed);
    let patience = Some(Duration::from_millis(300));
    rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Send, patience)
        .expect("set");
    assert_eq!(rustix::net::connect(&socket, &other), Err(Errno::INPROGRESS));
    // The control: its own peer answers.
    let again = connected(peer);
    disconnect(&again);
    assert_eq!(rustix::net::connect(&again, &peer), Ok(()));
}

#[test]
fn a_twin_cannot_be_unlocked_or_moved_to_another_port() {
    let socket = connected(greeter());
    disconnect(&socket);
    for option in [libc::SO_LOCK_FILTER, libc::SO_DETACH_FILTER].into_iter().filter(|_| is_locked(&socket)) {
        let taken_off = sys::set_option(&socket, libc::SOL_SOCKET, option, &0_i32.to_ne_bytes());
        assert_eq!(taken_off.expect_err("locked").raw_os_error(), Some(libc::EPERM));
    }
    let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
    assert_eq!(rustix::net::bind(&socket, &any), Err(Errno::INVAL));
}

#[test]
fn a_twin_that_listens_is_reached_by_nobody() {
    let socket = connected(greeter());
    let port =
        SocketAddr::try_from(rustix::net::getsockname(&socket).expect("named")).expect("internet").port();
    if !is_locked(&socket) {
        return;
    }
    disconnect(&socket);
    rustix::net::listen(&socket, 1).expect("it may listen");
    let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
    let error = TcpStream::connect_timeout(&address, Duration::from_millis(300)).expect_err("nobody answers");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

#[test]
fn options_of_the_script_are_kept_and_sizes_that_nobody_set_are_not() {
    use rustix::net::sockopt;
    let script = original();
    let plain = twin(&script, "127.0.0.1:9".parse().expect("an address")).expect("a twin");
    sockopt::set_tcp_nodelay(&script, true).expect("set");
    sockopt::set_socket_keepalive(&script, true).expect("set");
    sockopt::set_socket_send_buffer_size(&script, 50_000).expect("set");
    sockopt::set_socket_timeout(&script, sockopt::Timeout::Recv, Some(Duration::from_secs(7))).expect("set");
    let copy = twin(&script, "127.0.0.1:9".parse().expect("an address")).expect("a twin");
    assert_eq!(sockopt::tcp_nodelay(&copy), Ok(true));
    assert_eq!(sockopt::socket_keepalive(&copy), Ok(true));
    assert_eq!(sockopt::socket_send_buffer_size(&copy), Ok(100_000));
    assert_eq!(
        sockopt::socket_recv_buffer_size(&copy),
        sockopt::socket_recv_buffer_size(&plain),
        "not set by hand"
    );
    assert_eq!(sockopt::socket_timeout(&copy, sockopt::Timeout::Recv), Ok(Some(Duration::from_secs(7))));
}

#[test]
fn only_tcp_goes_out() {
    let socket = |family, kind| rustix::net::socket(family, kind, None).expect("a socket");
    assert_eq!(kind(socket(AddressFamily::INET, SocketType::STREAM).as_fd()), Kind::Handed(State::Closed));
    assert_eq!(kind(socket(AddressFamily::INET, SocketType::DGRAM).as_fd()), Kind::Other);
    assert_eq!(kind(socket(AddressFamily::UNIX, SocketType::STREAM).as_fd()), Kind::Other);
    let file = std::fs::File::open("/dev/null").expect("there");
    assert_eq!(kind(file.as_fd()), Kind::Other);
}

#[test]
fn this_machine_is_recognised_by_any_of_its_addresses() {
    let own = |text: &str| socket::is_own_address(text.parse().expect("an address"));
    assert!(own("127.0.0.1:80").expect("local"));
    // An address for examples, which no machine has.
    assert!(!matches!(own("198.51.100.7:80"), Ok(true)));
}

#[test]
fn proxies_on_this_machine_are_exceptions() {
    let of = |url: &str| local_servers(url).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    assert_eq!(of("http://127.0.0.1:3128"), "127.0.0.1:3128");
    assert_eq!(of("http://me:secret@127.0.0.1:3128/x"), "127.0.0.1:3128");
    assert_eq!(of("localhost:8080"), "127.0.0.1:8080 [::1]:8080");
    assert_eq!(of("socks5h://[::1]"), "[::1]:1080");
    assert_eq!(of("https://[::1]:8443/"), "[::1]:8443");
    assert_eq!(of("http://10.1.2.3"), "10.1.2.3:80");
    for url in ["http://proxy.example:3128", "", "http://127.0.0.1:port", "direct"] {
        assert_eq!(of(url), "", "{url}");
    }
    let variables = [
        ("HTTPS_PROXY".to_owned(), "http://127.0.0.1:1".to_owned()),
        ("X".to_owned(), "127.0.0.1:2".to_owned()),
    ];
    let policy = policy(variables.iter().map(|(name, value)| (name, value)), &[]);
    assert!(policy.is_named("127.0.0.1:1".parse().expect("an address")));
    assert!(!policy.is_named("127.0.0.1:2".parse().expect("an address")));
}
