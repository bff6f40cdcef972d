//! Sockets to the hypervisor and between virtual machines (`AF_VSOCK`) have no namespace: every run and the host share
//! them.

use crate::harness::{Property, case, machine};

pub const PROPERTY: Property = Property::probe(
    "hypervisor_sockets",
    "A script cannot make AF_VSOCK sockets",
    r#"
def made(kind):
    return lambda: os.close(syscall("socket", 40, kind, 0))

attempt("stream", made(socket.SOCK_STREAM))
attempt("datagram", made(socket.SOCK_DGRAM))
attempt("packets", made(socket.SOCK_SEQPACKET))
"#,
    &[
        // EAFNOSUPPORT, ENODEV, ESOCKTNOSUPPORT: no such driver here, or not of this kind.
        case("stream", "ok|EAFNOSUPPORT|ENODEV", "EAFNOSUPPORT").seccomp("EAFNOSUPPORT"),
        case("datagram", "ok|EAFNOSUPPORT|ENODEV|ESOCKTNOSUPPORT", "EAFNOSUPPORT").seccomp("EAFNOSUPPORT"),
        case("packets", "ok|EAFNOSUPPORT|ENODEV|ESOCKTNOSUPPORT", "EAFNOSUPPORT").seccomp("EAFNOSUPPORT"),
    ],
)
.uncontrolled_where(|_| machine::lacks_module("vsock", "vsock_create"))
.known_as(&["CVE-2021-26708", "CVE-2024-50264"]);
