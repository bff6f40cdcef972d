//! Queues, classes and classifiers of an interface are set by the part of netlink that lists interfaces, too. A user namespace
//! gives everybody the privilege, and most classifiers have had a use after free.

use crate::harness::{Property, case};

pub const PROPERTY: Property = Property::probe(
    "traffic_control",
    "A script cannot change queues, classes, classifiers or links of the network",
    r#"
def text(value):
    padded = value + bytes(-len(value) % 4)
    return struct.pack("=HH", 4 + len(value), 1) + padded

def asked(kind, body, flags=0x605):
    def tried():
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as link:
            link.send(struct.pack("=IHHII", 16 + len(body), kind, flags, 1, 0) + body)
            answer = link.recv(4096)
            code = -struct.unpack_from("=i", answer, 16)[0]
            if code:
                raise OSError(code, "netlink")
    return tried

def control(handle, parent, kind):
    # Of interface 1, which is loopback.
    return struct.pack("=BxxxiIII", 0, 1, handle, parent, 0) + text(kind)

attempt("queue", asked(36, control(0x10000, 0xFFFFFFFF, b"pfifo\0")))
attempt("class", asked(40, control(0x10001, 0x10000, b"pfifo\0")))
for name in ("route", "tcindex", "u32", "fw", "basic"):
    attempt(f"classifier {name}", asked(44, control(0, 0x10000, name.encode() + b"\0")))
attempt("action", asked(48, struct.pack("=Bxxx", 0)))
attempt("link", asked(16, struct.pack("=BxHiII", 0, 0, 0, 0, 0) + struct.pack("=HH", 16, 18 | 0x8000) + text(b"dummy\0")))
"#,
    &[
        case("queue", "ok", "EPERM").namespaces("EPERM"),
        // Nothing is there to give it to: what matters is that the privilege is asked for first.
        case("class", "EINVAL|ENOENT|ENOTSUP", "EPERM").namespaces("EPERM"),
        case("classifier route", "EINVAL|ENOENT|ENOTSUP", "EPERM").namespaces("EPERM"),
        case("classifier tcindex", "EINVAL|ENOENT|ENOTSUP", "EPERM").namespaces("EPERM"),
        case("classifier u32", "EINVAL|ENOENT|ENOTSUP", "EPERM").namespaces("EPERM"),
        case("classifier fw", "EINVAL|ENOENT|ENOTSUP", "EPERM").namespaces("EPERM"),
        case("classifier basic", "EINVAL|ENOENT|ENOTSUP", "EPERM").namespaces("EPERM"),
        // The machine's own privilege, which no user namespace gives.
        case("action", "*", "EPERM").namespaces("EPERM"),
        case("link", "ok|ENOTSUP", "EPERM").namespaces("EPERM"),
    ],
)
.privately()
.known_as(&[
    "CVE-2022-2588",
    "CVE-2023-1281",
    "CVE-2023-1829",
    "CVE-2023-3609",
    "CVE-2023-3776",
    "CVE-2023-31436",
]);
