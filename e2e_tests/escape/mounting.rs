//! Mounts decide what a script sees: it cannot make, change, move or remove any, the covers over `/proc` included.

use crate::harness::{Property, case};

pub const PROPERTY: Property = Property::probe(
    "mounting",
    "A script cannot mount, remount or unmount",
    r#"
folder = f"{SCRATCH}/mount-here"
os.makedirs(folder, exist_ok=True)
here = folder.encode()

def mount(source, kind, flags=0, target=here):
    return lambda: syscall("mount", source, target, kind, flags, None)

BIND, REMOUNT, PRIVATE, MOVE = 0x1000, 0x20, 0x40000, 0x2000
attempt("tmpfs", mount(b"none", b"tmpfs"))
attempt("proc", mount(b"none", b"proc"))
attempt("bind", mount(b"/usr/bin", None, BIND))
attempt("remount writable", mount(None, None, REMOUNT | BIND, b"/proc"))
attempt("propagation", mount(None, None, PRIVATE, b"/proc"))
attempt("unmount", lambda: syscall("umount2", here, 2))
attempt("uncover /proc", lambda: syscall("umount2", b"/proc/sys", 2))
attempt("move", mount(b"/proc", None, MOVE))
"#,
    &[
        case("tmpfs", "ok", "EPERM").namespaces("EPERM").seccomp("EPERM").landlock("EPERM"),
        case("proc", "ok", "EPERM").namespaces("EPERM").seccomp("EPERM").landlock("EPERM"),
        case("bind", "ok", "EPERM").namespaces("EPERM").seccomp("EPERM").landlock("EPERM"),
        case("remount writable", "ok", "EPERM").namespaces("EPERM").seccomp("EPERM"),
        case("propagation", "ok", "EPERM").namespaces("EPERM").seccomp("EPERM"),
        case("unmount", "ok", "EPERM").namespaces("EPERM").seccomp("EPERM"),
        case("uncover /proc", "*", "EPERM").namespaces("EPERM").seccomp("EPERM"),
        case("move", "ok|EINVAL", "EPERM").namespaces("EPERM").seccomp("EPERM"),
    ],
)
.privately()
.known_as(&["CVE-2019-16884", "CVE-2019-19921", "CVE-2021-33909"]);
