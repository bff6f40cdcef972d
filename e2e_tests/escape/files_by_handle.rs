//! Opening files by number instead of by name passes every mount and every folder's permissions.

use crate::harness::{Property, case};

pub const PROPERTY: Property = Property::probe(
    "files_by_handle",
    "A script cannot open files by handle",
    r#"
class Handle(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint), ("kind", ctypes.c_int), ("data", ctypes.c_ubyte * 128)]

handle, mount = Handle(size=128), ctypes.c_int()
attempt("name_to_handle_at", lambda: syscall("name_to_handle_at", -100, b"/usr", handle, ctypes.byref(mount), 0))
root = Handle(size=8, kind=1)
root.data[0] = 2
folder = os.open("/usr", os.O_RDONLY)
attempt("open_by_handle_at", lambda: os.close(syscall("open_by_handle_at", folder, root, 0)))
"#,
    &[
        case("name_to_handle_at", "ok|ENOTSUP", "EPERM").seccomp("EPERM"),
        case("open_by_handle_at", "EPERM", "EPERM").outside_root("ok|ESTALE|ENOTSUP|EINVAL").namespaces("EPERM").seccomp("EPERM"),
    ],
)
.known_as(&["Shocker"]);
