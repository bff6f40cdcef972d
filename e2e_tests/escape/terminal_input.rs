//! Typing into a terminal, for whoever reads from it next; also with high bits set in the request, which a filter may
//! compare and the kernel ignores.

use crate::harness::{Property, case};

pub const PROPERTY: Property = Property::probe(
    "terminal_input",
    "A script cannot put characters into a terminal's input",
    r#"
import pty, termios
try:
    leader, follower = pty.openpty()
except OSError:
    # Without pseudo-terminals there is nothing to type into but what is at hand.
    leader = follower = 0

def request(number, argument=b"x"):
    def tried():
        os.setsid()
        fcntl.ioctl(follower, termios.TIOCSCTTY, 0)
        syscall("ioctl", follower, number, ctypes.create_string_buffer(argument))
    return in_child(tried)

TIOCSTI, TIOCLINUX, TIOCSETD = 0x5412, 0x541C, 0x5423
attempt("TIOCSTI", request(TIOCSTI))
attempt("TIOCSTI with high bits", request(TIOCSTI | 1 << 32))
attempt("TIOCSTI with all high bits", request(TIOCSTI | 0xFFFFFFFF << 32))
attempt("line discipline", request(TIOCSETD, struct.pack("i", 0)))
attempt("console selection", request(TIOCLINUX))
attempt("controlling terminal", opened("/dev/tty", os.O_RDWR))
"#,
    &[
        // EIO: dev.tty.legacy_tiocsti is off.
        case("TIOCSTI", "ok|EIO", "ENOTTY").seccomp("ENOTTY"),
        case("TIOCSTI with high bits", "ok|EIO", "ENOTTY").seccomp("ENOTTY"),
        case("TIOCSTI with all high bits", "ok|EIO", "ENOTTY").seccomp("ENOTTY"),
        case("line discipline", "ok", "ENOTTY").seccomp("ENOTTY"),
        case("console selection", "*", "ENOTTY").seccomp("ENOTTY"),
        case("controlling terminal", "*", "ENOENT").namespaces("ENOENT").landlock("EACCES|ENXIO"),
    ],
)
.known_as(&["CVE-2017-2636", "CVE-2017-5226", "CVE-2019-10063", "CVE-2023-28100"]);
