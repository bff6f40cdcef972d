//! Helpers of exploits: stopping the kernel in the middle of a copy, pages in pipes, holding up who opens a file.

use crate::harness::{Property, case};

pub const PROPERTY: Property = Property::probe(
    "races_with_the_kernel",
    "Calls that help to win races against the kernel or other programs are refused",
    r#"
attempt("userfaultfd", lambda: os.close(syscall("userfaultfd", 1)))
read, write = os.pipe()
page = mmap.mmap(-1, 4096)
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
attempt("vmsplice", lambda: syscall("vmsplice", write, ctypes.create_string_buffer(struct.pack("QQ", address, 16)), 1, 0))
attempt("remap_file_pages", lambda: syscall("remap_file_pages", address, 4096, 0, 0, 0))
path = f"{SCRATCH}/lease-{os.getpid()}"
file = os.open(path, os.O_CREAT | os.O_RDWR)
attempt("lease", lambda: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK))
folder = os.open(SCRATCH, os.O_RDONLY)
attempt("folder notification", lambda: fcntl.fcntl(folder, fcntl.F_NOTIFY, 0))
attempt("memfd_secret", lambda: os.close(syscall("memfd_secret", 0)))
attempt("migrate_pages", lambda: syscall("migrate_pages", 0, 0, None, None))
os.unlink(path)
"#,
    &[
        case("userfaultfd", "ok|EPERM|EINVAL|ENOSYS", "EPERM").seccomp("EPERM"),
        case("vmsplice", "ok", "EPERM").seccomp("EPERM"),
        case("remap_file_pages", "*", "EPERM").seccomp("EPERM"),
        case("lease", "EAGAIN|ok", "EINVAL").seccomp("EINVAL"),
        case("folder notification", "ok", "EINVAL").seccomp("EINVAL"),
        case("memfd_secret", "*", "EPERM").seccomp("EPERM"),
        case("migrate_pages", "*", "EPERM").seccomp("EPERM"),
    ],
);
