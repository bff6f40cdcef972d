//! The classic way out of a changed root is to change it once more.

use crate::harness::{Property, case};

pub const PROPERTY: Property = Property::probe(
    "changing_root",
    "A script cannot change its root",
    r#"
def out():
    held = os.open("/", os.O_RDONLY)
    os.makedirs(f"{SCRATCH}/new-root", exist_ok=True)
    syscall("chroot", f"{SCRATCH}/new-root".encode())
    os.fchdir(held)
    for _ in range(64):
        os.chdir("..")
    syscall("chroot", b".")

attempt("chroot", in_child(lambda: syscall("chroot", b"/tmp")))
attempt("chroot twice", in_child(out))
attempt("pivot_root", in_child(lambda: syscall("pivot_root", b".", b".")))
"#,
    &[
        case("chroot", "ok", "EPERM").namespaces("EPERM").seccomp("EPERM").landlock("EPERM"),
        case("chroot twice", "ok", "EPERM").confined("EPERM|EACCES").namespaces("EPERM").seccomp("EPERM"),
        case("pivot_root", "EINVAL|EBUSY|ENOTDIR", "EPERM").namespaces("EPERM").seccomp("EPERM"),
    ],
)
.privately();
