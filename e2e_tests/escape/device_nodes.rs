//! Device nodes: making them, and which are there.

use crate::harness::{Property, case};

pub const PROPERTY: Property = Property::probe(
    "device_nodes",
    "A script cannot make device nodes, and finds only the harmless ones",
    r#"
def node(kind, device, high=0):
    path = f"{SCRATCH}/node-{os.getpid()}"
    def tried():
        try:
            syscall("mknodat", -100, path.encode(), kind | 0o600 | high, os.makedev(*device))
        finally:
            if os.path.lexists(path):
                os.unlink(path)
    return tried

attempt("pipe", node(stat.S_IFIFO, (0, 0)))
attempt("null device", node(stat.S_IFCHR, (1, 3)))
attempt("memory device", node(stat.S_IFCHR, (1, 1)))
attempt("disk", node(stat.S_IFBLK, (254, 0)))
attempt("disk, high bits", node(stat.S_IFBLK, (254, 0), 1 << 32))
attempt("whiteout", node(stat.S_IFCHR, (0, 0)))

def others():
    known = {"null", "zero", "full", "random", "urandom", "ptmx"}
    for folder, _, names in os.walk("/dev"):
        for name in names:
            path = os.path.join(folder, name)
            kind = os.lstat(path).st_mode
            if (stat.S_ISCHR(kind) or stat.S_ISBLK(kind)) and name not in known:
                return "some"
    return "none"

attempt("other devices", others)
"#,
    &[
        case("pipe", "ok", "ok").seccomp("ok").namespaces("ok"),
        case("null device", "EPERM", "EPERM").outside_root("ok").namespaces("EPERM").seccomp("EPERM"),
        case("memory device", "EPERM", "EPERM").outside_root("ok").namespaces("EPERM").seccomp("EPERM"),
        case("disk", "EPERM", "EPERM").outside_root("ok").namespaces("EPERM").seccomp("EPERM"),
        case("disk, high bits", "EPERM", "EPERM").outside_root("ok").namespaces("EPERM").seccomp("EPERM"),
        case("whiteout", "ok", "EPERM").seccomp("EPERM"),
        case("other devices", "some", "none").confined("none|some").namespaces("none"),
    ],
);
