//! Requests to drivers by ioctl. The kernel reads 32 bits of the number; a filter that compares 64 lets others through.

use crate::harness::{Property, case};

pub const PROPERTY: Property = Property::probe(
    "device_requests",
    "Of ioctl a script can use a list, whatever the upper half of the request holds",
    r#"
path = f"{SCRATCH}/request-{os.getpid()}"
file = os.open(path, os.O_CREAT | os.O_RDWR)
try:
    names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
except OSError:
    names = socket.socketpair()[0]
space = os.open("/proc/self/ns/user", os.O_RDONLY)
buffer = ctypes.create_string_buffer(256)

def request(number, target=file):
    number_of_file = target if isinstance(target, int) else target.fileno()
    return lambda: syscall("ioctl", number_of_file, number, buffer)

attempt("FIONREAD", request(0x541B))
attempt("FIONREAD, high bits", request(0x541B | 1 << 40))
attempt("immutable flag", request(0x40086602))
attempt("freeze", request(0xC0045877))
attempt("parent namespace", request(0xB702, space))
attempt("owner of a namespace", request(0xB701, space))
attempt("own interface down", request(0x8914, names))
attempt("driver's own", request(0x89F0, names))
attempt("firmware of a card", request(0x8946, names))
attempt("encryption key", request(0xC0506617))
attempt("loop device", request(0x4C82))
attempt("watch queue, size", request(0x5760, os.pipe()[0]))
attempt("watch queue, filter", request(0x5761, os.pipe()[0]))
attempt("immutable flag, high bits", request(0x40086602 | 1 << 32))
os.unlink(path)
"#,
    &[
        case("FIONREAD", "ok", "ok").seccomp("ok"),
        case("FIONREAD, high bits", "ok", "ok|ENOTTY").seccomp("ok|ENOTTY"),
        case("immutable flag", "ok|ENOTSUP|ENOTTY", "ENOTTY").seccomp("ENOTTY"),
        case("freeze", "*", "ENOTTY").seccomp("ENOTTY"),
        case("parent namespace", "EPERM|ok", "ENOTTY").seccomp("ENOTTY"),
        case("owner of a namespace", "EPERM|ok", "ENOTTY").seccomp("ENOTTY"),
        case("own interface down", "*", "ENOTTY").seccomp("ENOTTY"),
        case("driver's own", "*", "ENOTTY").seccomp("ENOTTY"),
        case("firmware of a card", "ENODEV|EFAULT", "ENOTSUP").seccomp("ENOTSUP"),
        case("encryption key", "*", "ENOTTY").seccomp("ENOTTY"),
        case("loop device", "*", "ENOTTY").seccomp("ENOTTY"),
        case("watch queue, size", "*", "ENOTTY").seccomp("ENOTTY"),
        case("watch queue, filter", "*", "ENOTTY").seccomp("ENOTTY"),
        case("immutable flag, high bits", "ok|ENOTSUP|ENOTTY", "ENOTTY").seccomp("ENOTTY"),
    ],
)
.known_as(&["CVE-2019-10063", "CVE-2022-0995"]);
