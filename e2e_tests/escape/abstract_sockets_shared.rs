//! With the host's network its abstract sockets are in the same namespace; Landlock's scope keeps them out of reach.

use crate::harness::{Need, Property, case};

pub const PROPERTY: Property = Property::probe(
    "abstract_sockets_shared",
    "With the host's network a script reaches no abstract socket of the host, where the kernel has Landlock's scopes",
    r#"
attempt("a service", connected(socket.AF_UNIX, "\0" + ARGS["name"]))
attempt("a datagram", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", "\0" + ARGS["name"] + "-d") and None)
"#,
    &[
        case("a service", "ok", "EPERM").landlock("EPERM"),
        case("a datagram", "ok", "EPERM").landlock("EPERM"),
    ],
)
.flags(&["--network", "host"])
.staged(super::abstract_sockets::stage)
.needs(&[Need::Landlock(6)])
.known_as(&["CVE-2020-15257"]);
