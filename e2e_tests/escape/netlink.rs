//! Netlink carries packet filters, IPsec and more, each with a record of bugs that a user namespace opens.

use crate::harness::{Property, case};

pub const PROPERTY: Property = Property::probe(
    "netlink",
    "Of netlink a script reaches the list of interfaces, and can change nothing with it",
    r#"
def made(protocol):
    return lambda: os.close(syscall("socket", socket.AF_NETLINK, socket.SOCK_RAW, protocol))

for name, number in {"route": 0, "usersock": 2, "firewall": 3, "sock_diag": 4, "nflog": 5, "xfrm": 6, "iscsi": 8, "audit": 9,
                     "fib_lookup": 10, "connector": 11, "netfilter": 12, "kobject_uevent": 15, "generic": 16,
                     "rdma": 20, "crypto": 21}.items():
    attempt(name, made(number))

def add_address():
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as link:
        body = struct.pack("=BBBBI", socket.AF_INET, 8, 0, 0, 1) + struct.pack("=HH4s", 8, 2, bytes([10, 9, 8, 7]))
        link.send(struct.pack("=IHHII", 16 + len(body), 20, 0x605, 1, 0) + body)
        answer = link.recv(4096)
        code = -struct.unpack_from("=i", answer, 16)[0]
        if code:
            raise OSError(code, "netlink")

attempt("adding an address", add_address)
"#,
    &[
        case("route", "ok", "ok").confined("EAFNOSUPPORT").seccomp("ok"),
        case("usersock", "*", "EPROTONOSUPPORT").seccomp("EPROTONOSUPPORT"),
        case("firewall", "*", "EPROTONOSUPPORT").seccomp("EPROTONOSUPPORT"),
        case("sock_diag", "ok|EPROTONOSUPPORT", "EPROTONOSUPPORT").seccomp("EPROTONOSUPPORT"),
        case("nflog", "*", "EPROTONOSUPPORT").seccomp("EPROTONOSUPPORT"),
        case("xfrm", "ok|EPROTONOSUPPORT", "EPROTONOSUPPORT").seccomp("EPROTONOSUPPORT"),
        case("iscsi", "*", "EPROTONOSUPPORT").seccomp("EPROTONOSUPPORT"),
        case("audit", "*", "EPROTONOSUPPORT").seccomp("EPROTONOSUPPORT"),
        case("fib_lookup", "*", "EPROTONOSUPPORT").seccomp("EPROTONOSUPPORT"),
        case("connector", "*", "EPROTONOSUPPORT").seccomp("EPROTONOSUPPORT"),
        case("netfilter", "ok|EPROTONOSUPPORT", "EPROTONOSUPPORT").seccomp("EPROTONOSUPPORT"),
        case("kobject_uevent", "ok", "EPROTONOSUPPORT").seccomp("EPROTONOSUPPORT"),
        case("generic", "ok", "EPROTONOSUPPORT").seccomp("EPROTONOSUPPORT"),
        case("rdma", "*", "EPROTONOSUPPORT").seccomp("EPROTONOSUPPORT"),
        case("crypto", "*", "EPROTONOSUPPORT").seccomp("EPROTONOSUPPORT"),
        case("adding an address", "ok", "EPERM").namespaces("EPERM"),
    ],
)
.privately()
.known_as(&["CVE-2017-7184", "CVE-2022-27666", "CVE-2022-34918", "CVE-2023-32233", "CVE-2024-1086", "CVE-2026-43284"]);
