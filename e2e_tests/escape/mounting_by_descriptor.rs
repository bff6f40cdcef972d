//! The newer calls for mounts, which work on descriptors, and parsers of mount options, which have been a way into the
//! kernel by themselves.

use crate::harness::{Property, case};

pub const PROPERTY: Property = Property::probe(
    "mounting_by_descriptor",
    "A script cannot use the newer mount calls, nor list the host's mounts by them",
    r#"
attributes = ctypes.create_string_buffer(struct.pack("4Q", 1, 0, 0, 0))
attempt("open_tree", lambda: os.close(syscall("open_tree", -100, b"/usr/bin", 1)))
attempt("open_tree, without a copy", lambda: os.close(syscall("open_tree", -100, b"/usr/bin", 0)))
attempt("fsopen", lambda: os.close(syscall("fsopen", b"tmpfs", 0)))
attempt("fsopen, control groups", lambda: os.close(syscall("fsopen", b"cgroup", 0)))
attempt("fspick", lambda: os.close(syscall("fspick", -100, b"/proc", 0)))
attempt("fsconfig", lambda: syscall("fsconfig", -1, 6, None, None, 0))
attempt("fsmount", lambda: syscall("fsmount", -1, 0, 0))
attempt("move_mount", lambda: syscall("move_mount", -1, b"", -1, b"", 0x44))
attempt("mount_setattr", lambda: syscall("mount_setattr", -100, b"/proc", 0, attributes, 32))
attempt("statmount", lambda: syscall("statmount", None, None, 0, 0))
attempt("listmount", lambda: syscall("listmount", None, None, 0, 0))
"#,
    &[
        case("open_tree", "ok", "EPERM").namespaces("EPERM").seccomp("EPERM"),
        case("open_tree, without a copy", "ok", "EPERM").seccomp("EPERM"),
        case("fsopen", "ok", "EPERM").namespaces("EPERM").seccomp("EPERM"),
        case("fsopen, control groups", "ok|ENODEV|EPERM", "EPERM").namespaces("EPERM|ENODEV").seccomp("EPERM"),
        case("fspick", "ok", "EPERM").namespaces("EPERM").seccomp("EPERM"),
        case("fsconfig", "EBADF|EINVAL", "EPERM").seccomp("EPERM"),
        case("fsmount", "EBADF", "EPERM").namespaces("EPERM").seccomp("EPERM"),
        case("move_mount", "EBADF", "EPERM").namespaces("EPERM").seccomp("EPERM"),
        // ENOSYS: before Linux 5.12.
        case("mount_setattr", "ok|ENOSYS", "EPERM").seccomp("EPERM"),
        case("statmount", "*", "ENOSYS").seccomp("ENOSYS"),
        case("listmount", "*", "ENOSYS").seccomp("ENOSYS"),
    ],
)
.privately()
.known_as(&["CVE-2021-4154", "CVE-2022-0185"]);
