//! Calls of another architecture, which a filter for one architecture alone does not see.

use crate::harness::{Need, Property, case};

pub const PROPERTY: Property = Property::probe(
    "foreign_calls",
    "Calls by the 32-bit gate or with x32 numbers end the process",
    r#"
def gate():
    code = bytes([0x53, 0xB8, 20, 0, 0, 0, 0xCD, 0x80, 0x5B, 0xC3])  # push rbx; mov eax, getpid; int 0x80; pop rbx; ret
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    ctypes.CFUNCTYPE(ctypes.c_int)(address)()

attempt("int 0x80", in_child(gate))
attempt("x32 getpid", in_child(lambda: syscall(39 | 0x40000000)))
attempt("x32 ptrace", in_child(lambda: syscall(521 | 0x40000000, 0, 0, 0, 0)))
attempt("a number that does not exist", lambda: syscall(1000))
attempt("a negative number", in_child(lambda: syscall(-2)))
"#,
    &[
        // SIGSEGV: a kernel without the 32-bit gate.
        case("int 0x80", "ok|signal SIGSEGV", "signal SIGSYS").seccomp("signal SIGSYS"),
        case("x32 getpid", "ok|ENOSYS", "signal SIGSYS").seccomp("signal SIGSYS"),
        case("x32 ptrace", "*", "signal SIGSYS").seccomp("signal SIGSYS"),
        case("a number that does not exist", "ENOSYS", "ENOSYS").seccomp("ENOSYS"),
        case("a negative number", "ENOSYS", "ENOSYS|signal SIGSYS").seccomp("ENOSYS|signal SIGSYS"),
    ],
)
.needs(&[Need::X86])
.known_as(&["CVE-2009-0835", "CVE-2014-0038"]);
