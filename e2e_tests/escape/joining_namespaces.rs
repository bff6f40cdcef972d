//! Joining namespaces that exist: by their files in `/proc`, and by a pidfd.

use crate::harness::{Property, case};

pub const PROPERTY: Property = Property::probe(
    "joining_namespaces",
    "A script cannot join other namespaces, nor open those of process 1",
    r#"
def join(name):
    def tried():
        file = os.open(f"/proc/self/ns/{name}", os.O_RDONLY)
        syscall("setns", file, 0)
    return in_child(tried)

for name in ("mnt", "net", "uts", "ipc", "pid"):
    attempt(name, join(name))
attempt("by a pidfd", in_child(lambda: syscall("setns", syscall("pidfd_open", os.getppid(), 0), NEW["net"])))
attempt("process 1's", opened("/proc/1/ns/mnt"))
"#,
    &[
        case("mnt", "ok", "EPERM").namespaces("EPERM").seccomp("EPERM"),
        case("net", "ok", "EPERM").namespaces("EPERM").seccomp("EPERM"),
        case("uts", "ok", "EPERM").namespaces("EPERM").seccomp("EPERM"),
        case("ipc", "ok", "EPERM").namespaces("EPERM").seccomp("EPERM"),
        case("pid", "ok", "EPERM").namespaces("EPERM").seccomp("EPERM"),
        case("by a pidfd", "ok", "EPERM").namespaces("EPERM").seccomp("EPERM"),
        case("process 1's", "ok", "EACCES|EPERM").namespaces("EACCES|EPERM"),
    ],
)
.privately();
