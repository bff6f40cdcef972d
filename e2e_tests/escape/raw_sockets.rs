//! Raw and packet sockets read and forge what others send. In a user namespace anybody may make them.

use crate::harness::{Property, case};

pub const PROPERTY: Property = Property::probe(
    "raw_sockets",
    "A script cannot make raw, packet or XDP sockets",
    r#"
def made(family, kind, protocol):
    return lambda: os.close(syscall("socket", family, kind, protocol))

attempt("packet", made(17, socket.SOCK_RAW, 0x300))
attempt("packet, datagram", made(17, socket.SOCK_DGRAM, 0x300))
attempt("raw IPv4", made(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("raw IPv6", made(socket.AF_INET6, socket.SOCK_RAW, 58))
attempt("raw, with flags", made(socket.AF_INET, socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, 255))
attempt("old packet", made(socket.AF_INET, 10, 3))
attempt("XDP", made(44, socket.SOCK_RAW, 0))
"#,
    &[
        case("packet", "ok|EAFNOSUPPORT", "EAFNOSUPPORT").seccomp("EAFNOSUPPORT").namespaces("EPERM|EAFNOSUPPORT"),
        case("packet, datagram", "ok|EAFNOSUPPORT", "EAFNOSUPPORT").seccomp("EAFNOSUPPORT").namespaces("EPERM|EAFNOSUPPORT"),
        case("raw IPv4", "ok", "EPERM").seccomp("EPERM").namespaces("EPERM"),
        case("raw IPv6", "ok", "EPERM").seccomp("EPERM").namespaces("EPERM"),
        case("raw, with flags", "ok", "EPERM").seccomp("EPERM").namespaces("EPERM"),
        case("old packet", "ok|EAFNOSUPPORT|ESOCKTNOSUPPORT", "EPERM").seccomp("EPERM"),
        case("XDP", "ok|EAFNOSUPPORT", "EAFNOSUPPORT").seccomp("EAFNOSUPPORT"),
    ],
)
.privately()
.known_as(&["CVE-2016-8655", "CVE-2017-7308", "CVE-2020-14386"]);
