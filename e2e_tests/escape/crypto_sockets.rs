//! The kernel's cryptography by sockets (`AF_ALG`): page-cache writes started there, and nothing in Python needs it.

use crate::harness::{Property, case, machine};

pub const PROPERTY: Property = Property::probe(
    "crypto_sockets",
    "A script cannot make AF_ALG sockets",
    r#"
def made(family):
    return lambda: os.close(syscall("socket", family, socket.SOCK_SEQPACKET, 0))

attempt("AF_ALG", made(38))
attempt("AF_ALG, high bits", made(38 | 1 << 32))
attempt("AF_ALG, all high bits", made(38 | 0xFFFFFFFF << 32))
attempt("by the standard library", lambda: socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET).close())
"#,
    &[
        case("AF_ALG", "ok|EAFNOSUPPORT", "EAFNOSUPPORT").seccomp("EAFNOSUPPORT"),
        case("AF_ALG, high bits", "ok|EAFNOSUPPORT", "EAFNOSUPPORT").seccomp("EAFNOSUPPORT"),
        case("AF_ALG, all high bits", "ok|EAFNOSUPPORT", "EAFNOSUPPORT").seccomp("EAFNOSUPPORT"),
        case("by the standard library", "ok|EAFNOSUPPORT", "EAFNOSUPPORT").seccomp("EAFNOSUPPORT"),
    ],
)
.uncontrolled_where(|_| machine::lacks_module("af_alg", "alg_create"))
.known_as(&["CVE-2026-31431"]);
