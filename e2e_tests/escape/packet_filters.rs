//! Tables of packet filters are set by options of an ordinary socket. A user namespace gives everybody the privilege for it,
//! and what reads the tables has been a way into the kernel.

use crate::harness::{Property, case};

pub const PROPERTY: Property = Property::probe(
    "packet_filters",
    "A script cannot set tables of packet filters, nor change what becomes of its packets",
    r#"
def option(family, level, number, value):
    def tried():
        with socket.socket(family, socket.SOCK_DGRAM) as end:
            end.setsockopt(level, number, value)
    return tried

# A table without a name and with nothing in it: refused by what reads it, after it was asked for the privilege.
table = bytes(96)
attempt("IPv4 table", option(socket.AF_INET, socket.IPPROTO_IP, 64, table))
attempt("IPv6 table", option(socket.AF_INET6, socket.IPPROTO_IPV6, 64, table))
attempt("ARP table", option(socket.AF_INET, socket.IPPROTO_IP, 96, table))
attempt("bridge table", option(socket.AF_INET, socket.IPPROTO_IP, 128, bytes(120)))
attempt("mark", option(socket.AF_INET, socket.SOL_SOCKET, 36, struct.pack("i", 7)))
attempt("foreign addresses", option(socket.AF_INET, socket.IPPROTO_IP, 19, struct.pack("i", 1)))
attempt("large buffers", option(socket.AF_INET, socket.SOL_SOCKET, 32, struct.pack("i", 1 << 20)))
"#,
    &[
        // ENOPROTOOPT: the kernel has no such tables, or has not loaded them.
        case("IPv4 table", "EINVAL|ENOPROTOOPT", "EPERM|ENOPROTOOPT").namespaces("EPERM|ENOPROTOOPT"),
        case("IPv6 table", "EINVAL|ENOPROTOOPT", "EPERM|ENOPROTOOPT").namespaces("EPERM|ENOPROTOOPT"),
        case("ARP table", "EINVAL|ENOPROTOOPT", "EPERM|ENOPROTOOPT").namespaces("EPERM|ENOPROTOOPT"),
        case("bridge table", "EINVAL|ENOPROTOOPT", "EPERM|ENOPROTOOPT").namespaces("EPERM|ENOPROTOOPT"),
        // The same privilege, on every kernel.
        case("mark", "ok", "EPERM").namespaces("EPERM"),
        case("foreign addresses", "ok", "EPERM").namespaces("EPERM"),
        // That of the machine itself, which no user namespace gives.
        case("large buffers", "*", "EPERM").namespaces("EPERM"),
    ],
)
.privately()
.known_as(&["CVE-2016-3134", "CVE-2016-4997", "CVE-2021-22555"]);
