//! Layers of a file system, mounted in a user namespace, have carried file capabilities and set-user-ID files out of it.

use crate::harness::{Property, case};

pub const PROPERTY: Property = Property::probe(
    "overlay_mounts",
    "A script cannot mount layers of a file system, nor give files capabilities",
    r#"
import tempfile
top = tempfile.mkdtemp(prefix="overlay-", dir=os.getcwd())
for name in ("lower", "upper", "work", "merged"):
    os.makedirs(f"{top}/{name}", exist_ok=True)

layers = f"lowerdir={top}/lower,upperdir={top}/upper,workdir={top}/work".encode()
attempt("layers", lambda: syscall("mount", b"overlay", f"{top}/merged".encode(), b"overlay", 0, layers))
attempt("layers, by descriptor", lambda: os.close(syscall("fsopen", b"overlay", 0)))
attempt("a file system of its own", lambda: syscall("mount", b"fuse", f"{top}/merged".encode(), b"fuse", 0, b"fd=0,rootmode=40000,user_id=0,group_id=0"))

def capable(version):
    path = f"{top}/file"
    open(path, "w").close()
    # cap_net_raw and all others, permitted and effective.
    value = struct.pack("<IIIII", version | 1, 0xFFFFFFFF, 0, 0xFFFFFFFF, 0) + (bytes(4) if version == 0x03000000 else b"")
    os.setxattr(path, "security.capability", value)
    try:
        os.getxattr(path, "security.capability")
    except OSError:
        return "without effect"

attempt("file capabilities", lambda: capable(0x02000000))
attempt("file capabilities of a namespace", lambda: capable(0x03000000))
attempt("mark of layers", lambda: os.setxattr(f"{top}/file", "trusted.overlay.opaque", b"y"))
"#,
    &[
        // EPERM: before Linux 5.11.
        case("layers", "ok|EPERM|ENODEV", "EPERM").namespaces("EPERM").seccomp("EPERM"),
        case("layers, by descriptor", "ok|EPERM|ENODEV", "EPERM").namespaces("EPERM|ENODEV").seccomp("EPERM"),
        case("a file system of its own", "EINVAL|ENODEV|EPERM", "EPERM").namespaces("EPERM|ENODEV").seccomp("EPERM"),
        // In the confined tier attributes are said to be set, and are not.
        case("file capabilities", "ok", "EPERM").confined("without effect").namespaces("EPERM"),
        case("file capabilities of a namespace", "ok|EPERM|EINVAL", "EPERM").confined("without effect").namespaces("EPERM"),
        case("mark of layers", "EPERM|ENOTSUP", "EPERM|ENOTSUP").confined("ok"),
    ],
)
.privately()
.known_as(&["CVE-2015-1328", "CVE-2021-3493", "CVE-2023-0386", "CVE-2023-2640", "CVE-2023-32629"]);
