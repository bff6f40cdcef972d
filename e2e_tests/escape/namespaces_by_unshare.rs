//! A new namespace, above all a user namespace, opens parts of the kernel that only root reaches otherwise.

use crate::harness::{Property, case};

pub const PROPERTY: Property = Property::probe(
    "namespaces_by_unshare",
    "A script cannot make namespaces by unshare",
    r#"
for name, flag in NEW.items():
    attempt(name, in_child(lambda: syscall("unshare", flag)))
attempt("user, high bits", in_child(lambda: syscall("unshare", NEW["user"] | 1 << 32)))
attempt("all", in_child(lambda: syscall("unshare", sum(NEW.values()))))
attempt("files", in_child(lambda: syscall("unshare", 0x400)))
"#,
    &[
        case("time", "ok", "EPERM").seccomp("EPERM"),
        case("mount", "ok", "EPERM").namespaces("EPERM").seccomp("EPERM"),
        case("cgroup", "ok", "EPERM").namespaces("EPERM").seccomp("EPERM"),
        case("uts", "ok", "EPERM").namespaces("EPERM").seccomp("EPERM"),
        case("ipc", "ok", "EPERM").namespaces("EPERM").seccomp("EPERM"),
        case("user", "ok", "EPERM").seccomp("EPERM"),
        case("pid", "ok", "EPERM").namespaces("EPERM").seccomp("EPERM"),
        case("net", "ok", "EPERM").namespaces("EPERM").seccomp("EPERM"),
        case("user, high bits", "*", "EPERM").seccomp("EPERM"),
        case("all", "ok", "EPERM").seccomp("EPERM"),
        case("files", "ok", "EPERM").seccomp("EPERM"),
    ],
)
.privately()
.known_as(&["CVE-2018-18955", "CVE-2022-0185", "CVE-2022-0492", "CVE-2024-1086"]);
