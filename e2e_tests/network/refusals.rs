//! What no script reaches: the machine itself, its link, a cloud's metadata, and anybody by datagram.

use super::lab::{As, run};

#[test]
fn nothing_of_the_machine_is_reached() {
    let script = r#"
for host, port in (("127.0.0.1", 8000), ("198.51.100.1", 8000), ("::1", 8000), ("2001:db8:1::1", 8000),
                   ("::ffff:127.0.0.1", 8000), ("::ffff:198.51.100.1", 8000), ("0.0.0.0", 8000), ("localhost", 8000)):
    told(host, lambda: socket.create_connection((host, port), timeout=5))
def abstract():
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect("\0lab-service")
told("abstract", abstract)
told("names", lambda: [line for line in open("/proc/net/unix") if "@" in line])
told("interfaces", lambda: socket.if_nameindex())
told("world", lambda: greeting(WORLD))
"#;
    for who in [As::Caller, As::User] {
        let Some(told) = run(script, &[], who) else { continue };
        let inside = ["127.0.0.1", "::1", "::ffff:127.0.0.1", "0.0.0.0", "localhost"];
        told.assert(&inside.map(|host| (host, "ECONNREFUSED")));
        let own = ["198.51.100.1", "2001:db8:1::1", "::ffff:198.51.100.1"];
        told.assert(&own.map(|host| (host, "EACCES")));
        // Landlock's scope answers before the namespace does, where there is one.
        assert!(["ECONNREFUSED", "EPERM"].contains(&told.of("abstract")), "{}", told.text);
        told.assert(&[("names", "[]"), ("interfaces", "[(1, 'lo')]"), ("world", "hello")]);
        told.assert_nobody_came();
    }
}

/// The lab has shown that each of them answers.
#[test]
fn link_and_metadata_addresses_are_refused_at_once() {
    let script = r#"
start = time.monotonic()
for host in ("169.254.169.254", "169.254.170.2", "100.100.100.200", "fd00:ec2::254", "::ffff:169.254.169.254",
             "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "fe80::1", "224.0.0.1", "255.255.255.255", "240.0.0.1"):
    told(host, lambda: greeting(host))
    def not_blocking():
        stream = tcp(socket.AF_INET6 if ":" in host else socket.AF_INET)
        stream.setblocking(False)
        return errno.errorcode.get(stream.connect_ex((host, 7000)))
    told("async " + host, not_blocking)
told("by_name", lambda: greeting("rebound.test"))
told("soon", lambda: time.monotonic() - start < 2)
told("world", lambda: greeting(WORLD))
"#;
    let Some(told) = run(script, &[], As::Caller) else { return };
    for line in told.text.lines().filter(|line| !line.starts_with("lab:")) {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        let expected = match name {
            "soon" => "True",
            "world" => "hello",
            _ => "EACCES",
        };
        assert_eq!(value, expected, "{name}");
    }
    assert_eq!(told.text.lines().count(), 11 * 2 + 4);
}

#[test]
fn datagrams_go_to_name_servers_only() {
    let script = r#"
stream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
told("sendto", lambda: stream.sendto(b"x", (WORLD, 53)))
told("sendmsg", lambda: stream.sendmsg([b"x"], [], 0, (WORLD, 53)))
told("connect", lambda: stream.connect((WORLD, 53)))
told("connect_v6", lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).connect(("2606:2800::1", 53)))
told("metadata", lambda: stream.connect(("169.254.169.254", 80)))
def inside():
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))
    stream.connect(server.getsockname())
    stream.send(b"inside")
    return server.recv(10).decode()
told("inside", inside)
"#;
    let Some(told) = run(script, &[], As::Caller) else { return };
    let unreachable = ["sendto", "sendmsg", "connect"].map(|name| (name, "ENETUNREACH"));
    told.assert(&unreachable);
    assert!(["ENETUNREACH", "EADDRNOTAVAIL"].contains(&told.of("connect_v6")), "{}", told.text);
    told.assert(&[("metadata", "EACCES"), ("inside", "inside")]);
}
