//! io_uring carries out other calls where no filter sees them; the older interface goes with it.

use crate::harness::{Property, case};

pub const PROPERTY: Property = Property::probe(
    "asynchronous_calls",
    "A script cannot have the kernel carry out calls behind the filter",
    r#"
parameters = ctypes.create_string_buffer(120)
attempt("io_uring_setup", lambda: os.close(syscall("io_uring_setup", 1, parameters)))
attempt("io_uring_enter", lambda: syscall("io_uring_enter", -1, 0, 0, 0, None, 0))
attempt("io_uring_register", lambda: syscall("io_uring_register", -1, 0, None, 0))
context = ctypes.c_ulong(0)
attempt("io_setup", lambda: syscall("io_setup", 1, ctypes.byref(context)))
"#,
    &[
        // EPERM, ENOSYS: kernel.io_uring_disabled, or built without.
        case("io_uring_setup", "ok|EPERM|ENOSYS", "ENOSYS").seccomp("ENOSYS"),
        case("io_uring_enter", "EBADF|EINVAL|ENOSYS|ENOTSUP", "ENOSYS").seccomp("ENOSYS"),
        case("io_uring_register", "EBADF|EINVAL|ENOSYS|EPERM", "ENOSYS").seccomp("ENOSYS"),
        case("io_setup", "ok|ENOSYS", "ENOSYS").seccomp("ENOSYS"),
    ],
)
.known_as(&["CVE-2021-41073", "CVE-2022-29582", "CVE-2023-2598"]);
