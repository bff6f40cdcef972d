//! The same by clone, whose flags share a register with the exit signal, and by clone3, whose flags lie in memory.

use crate::harness::{Property, case};

pub const PROPERTY: Property = Property::probe(
    "namespaces_by_clone",
    "A script cannot make namespaces by clone or clone3, nor a child for its own parent",
    r#"
def cloned(flags):
    def tried():
        child = syscall("clone", flags | signal.SIGCHLD, 0, 0, 0, 0)
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    return tried

def cloned3(flags):
    def tried():
        arguments = struct.pack("11Q", flags, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)
        child = syscall("clone3", ctypes.create_string_buffer(arguments), len(arguments))
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    return tried

def sibling():
    child = syscall("clone", 0x8000 | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)

attempt("clone, plain", cloned(0))
for name in ("user", "mount", "pid", "net"):
    attempt(f"clone, {name}", cloned(NEW[name]))
attempt("clone, user and mount", cloned(NEW["user"] | NEW["mount"]))
attempt("clone, child of the parent", in_child(sibling))
attempt("clone3, plain", cloned3(0))
attempt("clone3, user", cloned3(NEW["user"]))
attempt("clone3, into a cgroup", cloned3(0x200000000))
"#,
    &[
        case("clone, plain", "ok", "ok").seccomp("ok"),
        case("clone, user", "ok", "EPERM").seccomp("EPERM"),
        case("clone, mount", "ok", "EPERM").namespaces("EPERM").seccomp("EPERM"),
        case("clone, pid", "ok", "EPERM").namespaces("EPERM").seccomp("EPERM"),
        case("clone, net", "ok", "EPERM").namespaces("EPERM").seccomp("EPERM"),
        case("clone, user and mount", "ok", "EPERM").seccomp("EPERM"),
        case("clone, child of the parent", "ok", "EPERM").seccomp("EPERM"),
        case("clone3, plain", "ok", "ENOSYS").seccomp("ENOSYS"),
        case("clone3, user", "ok", "ENOSYS").seccomp("ENOSYS"),
        case("clone3, into a cgroup", "*", "ENOSYS").seccomp("ENOSYS"),
    ],
)
.privately()
.known_as(&["CVE-2013-1858", "CVE-2022-0185"]);
