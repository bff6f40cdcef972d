//! The machine's ports and segments for old code.

use crate::harness::{Need, Property, case};

pub const PROPERTY: Property = Property::probe(
    "processor_features",
    "A script cannot use input and output ports or make segments of its own",
    r#"
attempt("iopl", lambda: syscall("iopl", 3))
attempt("ioperm", lambda: syscall("ioperm", 0x80, 1, 1))
attempt("modify_ldt", lambda: syscall("modify_ldt", 0, ctypes.create_string_buffer(16), 16) and None)
attempt("ARCH_SET_CPUID", lambda: syscall("arch_prctl", 0x1012, 1))
attempt("ARCH_MAP_VDSO_32", lambda: syscall("arch_prctl", 0x2002, 0) and None)
attempt("lookup by number", lambda: syscall("uselib", b"/usr/lib/none"))
"#,
    &[
        case("iopl", "EPERM|ENOSYS", "EPERM").outside_root("ok|ENOSYS").namespaces("EPERM|ENOSYS").seccomp("EPERM"),
        case("ioperm", "EPERM|ENOSYS", "EPERM").outside_root("ok|ENOSYS").namespaces("EPERM|ENOSYS").seccomp("EPERM"),
        case("modify_ldt", "ok|ENOSYS", "EPERM").seccomp("EPERM"),
        case("ARCH_SET_CPUID", "*", "EINVAL").seccomp("EINVAL"),
        case("ARCH_MAP_VDSO_32", "*", "EINVAL").seccomp("EINVAL"),
        case("lookup by number", "*", "ENOSYS").seccomp("ENOSYS"),
    ],
)
.needs(&[Need::X86])
.known_as(&["CVE-2017-17053"]);
