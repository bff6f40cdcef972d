//! What only an administrator does: the filter answers before the kernel looks who asks. The control as root uses
//! arguments that fail.

use crate::harness::{Property, case};

pub const PROPERTY: Property = Property::probe(
    "administration",
    "A script cannot load code into the kernel, end it, set its clock or manage the host",
    r#"
wrong = ctypes.create_string_buffer(struct.pack("qq", 0, -1))
attempt("init_module", lambda: syscall("init_module", None, 0, None))
attempt("finit_module", lambda: syscall("finit_module", -1, b"", 0))
attempt("delete_module", lambda: syscall("delete_module", b"no_such_module", 0x800))
attempt("kexec_load", lambda: syscall("kexec_load", 0, 100, None, 0))
attempt("kexec_file_load", lambda: syscall("kexec_file_load", -1, -1, 0, None, 0x80000000))
attempt("reboot", lambda: syscall("reboot", 0, 0, 0, None))
attempt("clock_settime", lambda: syscall("clock_settime", 0, wrong))
attempt("settimeofday", lambda: syscall("settimeofday", wrong, None))
attempt("adjtimex", lambda: syscall("adjtimex", ctypes.create_string_buffer(208)))
attempt("swapon", lambda: syscall("swapon", b"/nonexistent", 0))
attempt("swapoff", lambda: syscall("swapoff", b"/nonexistent"))
attempt("acct", lambda: syscall("acct", b"/nonexistent"))
attempt("quotactl", lambda: syscall("quotactl", 0x80000600, b"/nonexistent", 0, None))
attempt("sethostname", lambda: syscall("sethostname", b"x", 65))
attempt("setdomainname", lambda: syscall("setdomainname", b"x", 65))
attempt("fanotify_init", lambda: os.close(syscall("fanotify_init", 0x10000000, 0)))
attempt("vhangup", lambda: syscall("vhangup"))
attempt("lookup_dcookie", lambda: syscall("lookup_dcookie", 0, None, 0))
"#,
    &[
        case("init_module", "EPERM|ENOSYS", "EPERM").outside_root("ENOEXEC|ENOSYS").seccomp("EPERM"),
        case("finit_module", "EPERM|ENOSYS", "EPERM").outside_root("EBADF|ENOSYS").seccomp("EPERM"),
        case("delete_module", "EPERM|ENOSYS", "EPERM").outside_root("ENOENT|ENOSYS").seccomp("EPERM"),
        case("kexec_load", "EPERM|ENOSYS", "EPERM").outside_root("EINVAL|ENOSYS|EPERM").seccomp("EPERM"),
        case("kexec_file_load", "EPERM|ENOSYS", "EPERM").outside_root("EINVAL|ENOSYS|EPERM").seccomp("EPERM"),
        case("reboot", "EPERM", "EPERM").outside_root("EINVAL").seccomp("EPERM"),
        case("clock_settime", "EINVAL|EPERM", "EPERM").outside_root("EINVAL").seccomp("EPERM"),
        case("settimeofday", "EINVAL|EPERM", "EPERM").outside_root("EINVAL").seccomp("EPERM"),
        case("adjtimex", "ok", "EPERM").seccomp("EPERM"),
        case("swapon", "EPERM|ENOSYS", "EPERM").outside_root("ENOENT|ENOSYS").seccomp("EPERM"),
        case("swapoff", "EPERM|ENOSYS", "EPERM").outside_root("ENOENT|ENOSYS").seccomp("EPERM"),
        case("acct", "EPERM|ENOSYS", "EPERM").outside_root("ENOENT|ENOSYS").seccomp("EPERM"),
        case("quotactl", "*", "EPERM").seccomp("EPERM"),
        case("sethostname", "EPERM", "EPERM").outside_root("EINVAL").seccomp("EPERM"),
        case("setdomainname", "EPERM", "EPERM").outside_root("EINVAL").seccomp("EPERM"),
        case("fanotify_init", "EINVAL|EPERM|ENOSYS", "EPERM").seccomp("EPERM"),
        case("vhangup", "*", "EPERM").seccomp("EPERM"),
        case("lookup_dcookie", "*", "EPERM|ENOSYS").seccomp("EPERM|ENOSYS"),
    ],
);
