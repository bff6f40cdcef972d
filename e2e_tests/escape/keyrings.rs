//! The kernel's keyrings have no namespace of their own.

use crate::harness::{Property, case};

pub const PROPERTY: Property = Property::probe(
    "keyrings",
    "A script cannot use keys, neither the user's nor those of another run",
    r#"
SESSION, USER = -3 & 0xFFFFFFFF, -4 & 0xFFFFFFFF
attempt("add_key", in_child(lambda: syscall("add_key", b"user", b"escape", b"x", 1, -2 & 0xFFFFFFFF)))
attempt("request_key", lambda: syscall("request_key", b"user", b"escape-none", None, 0))
attempt("session keyring", lambda: syscall("keyctl", 0, SESSION, 0))
attempt("user keyring", lambda: syscall("keyctl", 0, USER, 1))
attempt("join a session", in_child(lambda: syscall("keyctl", 1, None)))
attempt("describe", lambda: syscall("keyctl", 6, SESSION, None, 0))
"#,
    &[
        case("add_key", "ok", "EPERM").seccomp("EPERM"),
        case("request_key", "ENOKEY", "EPERM").seccomp("EPERM"),
        case("session keyring", "ok|ENOKEY", "EPERM").seccomp("EPERM"),
        case("user keyring", "ok", "EPERM").seccomp("EPERM"),
        case("join a session", "ok", "EPERM").seccomp("EPERM"),
        case("describe", "ok", "EPERM").seccomp("EPERM"),
    ],
)
.known_as(&["CVE-2016-0728"]);
