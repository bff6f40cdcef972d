//! Options of a process that would weaken it, or a filter that answers in place of ours.

use crate::harness::{Property, case};

pub const PROPERTY: Property = Property::probe(
    "process_options",
    "A script cannot weaken itself: address randomisation, its memory map, its filter",
    r#"
attempt("personality, no randomisation", in_child(lambda: syscall("personality", 0x0040000)))
attempt("personality, READ_IMPLIES_EXEC", in_child(lambda: syscall("personality", 0x0400000)))
attempt("personality, asked", lambda: syscall("personality", 0xFFFFFFFF))
attempt("personality, set to none by mistake", in_child(lambda: syscall("personality", 0x0040000 | 0xFFFFFFFF << 32)))
attempt("PR_SET_MM", lambda: syscall("prctl", 35, 1, 0, 0, 0))
attempt("PR_SET_PTRACER", lambda: syscall("prctl", 0x59616D61, -1, 0, 0, 0))
attempt("PR_SET_SECUREBITS", lambda: syscall("prctl", 28, 0, 0, 0, 0))
attempt("PR_SET_SYSCALL_USER_DISPATCH", lambda: syscall("prctl", 59, 0, 0, 0, 0))
program = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000))
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_void_p)]
allow_all = Filter(1, ctypes.addressof(program))
def listener():
    syscall("prctl", 38, 1, 0, 0, 0)
    os.close(syscall("seccomp", 1, 8, allow_all))
attempt("a filter with a listener", in_child(listener))
def relaxed():
    syscall("prctl", 38, 1, 0, 0, 0)
    syscall("seccomp", 1, 0, allow_all)
    syscall("unshare", NEW["user"])
attempt("a filter that allows all, then unshare", in_child(relaxed))
"#,
    &[
        case("personality, no randomisation", "ok", "EPERM").seccomp("EPERM"),
        case("personality, READ_IMPLIES_EXEC", "ok", "EPERM").seccomp("EPERM"),
        case("personality, asked", "ok", "ok").seccomp("ok"),
        case("personality, set to none by mistake", "ok", "EPERM").seccomp("EPERM"),
        case("PR_SET_MM", "EPERM|EINVAL", "EINVAL").seccomp("EINVAL"),
        case("PR_SET_PTRACER", "ok|EINVAL", "EINVAL").seccomp("EINVAL"),
        case("PR_SET_SECUREBITS", "ok", "EINVAL").seccomp("EINVAL"),
        case("PR_SET_SYSCALL_USER_DISPATCH", "ok|EINVAL", "EINVAL").seccomp("EINVAL"),
        case("a filter with a listener", "ok", "EPERM").seccomp("EPERM"),
        case("a filter that allows all, then unshare", "ok", "EPERM").seccomp("EPERM"),
    ],
)
.privately();
