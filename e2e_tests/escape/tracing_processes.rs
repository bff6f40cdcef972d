//! Taking other processes over: by ptrace, by their memory, by their descriptors.

use crate::harness::{Property, case};

pub const PROPERTY: Property = Property::probe(
    "tracing_processes",
    "A script cannot trace processes, read or write their memory by calls, or take their descriptors",
    r#"
child = os.fork()
if child == 0:
    signal.pause()
text = ctypes.create_string_buffer(b"here")

class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

def vector(buffer):
    return Vector(ctypes.addressof(buffer), 4)

target = ctypes.create_string_buffer(8)
attempt("PTRACE_TRACEME", in_child(lambda: syscall("ptrace", 0, 0, 0, 0)))
attempt("PTRACE_SEIZE of a child", lambda: syscall("ptrace", 0x4206, child, 0, 0))
attempt("PTRACE_ATTACH to process 1", lambda: syscall("ptrace", 16, 1, 0, 0) and None)
attempt("process_vm_readv", lambda: syscall("process_vm_readv", child, vector(target), 1, vector(text), 1, 0))
attempt("process_vm_writev", lambda: syscall("process_vm_writev", child, vector(text), 1, vector(target), 1, 0))
attempt("pidfd_getfd", lambda: os.close(syscall("pidfd_getfd", syscall("pidfd_open", child, 0), 1, 0)))
attempt("kcmp", lambda: syscall("kcmp", child, child, 0, 0, 0))
attempt("process_madvise", lambda: syscall("process_madvise", -1, None, 0, 0, 0))
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
"#,
    &[
        case("PTRACE_TRACEME", "ok", "EPERM").seccomp("EPERM"),
        case("PTRACE_SEIZE of a child", "ok", "EPERM").seccomp("EPERM"),
        case("PTRACE_ATTACH to process 1", "EPERM", "EPERM").outside_root("*").namespaces("EPERM").seccomp("EPERM"),
        case("process_vm_readv", "ok", "EPERM").seccomp("EPERM"),
        case("process_vm_writev", "ok", "EPERM").seccomp("EPERM"),
        case("pidfd_getfd", "ok", "EPERM").seccomp("EPERM"),
        case("kcmp", "ok|ENOSYS", "EPERM").seccomp("EPERM"),
        case("process_madvise", "EBADF|EINVAL", "EPERM").seccomp("EPERM"),
    ],
)
.privately()
.known_as(&["CVE-2019-13272", "CVE-2014-4699"]);
