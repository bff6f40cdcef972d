//! Capabilities: none in any set, and none to be had, by whatever program is started.

use crate::harness::{Property, case};

pub const PROPERTY: Property = Property::probe(
    "capabilities",
    "A script has no capability and can gain none, nor any other identity",
    r#"
def status(names):
    with open("/proc/self/status") as file:
        return [line.split()[1] for line in file if line.startswith(names)]

def none_left():
    return "none" if set(int(value, 16) for value in status(("CapInh", "CapPrm", "CapEff", "CapAmb"))) == {0} else "some"

attempt("capability sets", none_left)
attempt("bounding set", lambda: "empty" if int(status(("CapBnd",))[0], 16) == 0 else "full")
attempt("no_new_privs", lambda: "set" if status(("NoNewPrivs",)) == ["1"] else "unset")
attempt("seccomp", lambda: "filter" if status(("Seccomp:",)) == ["2"] else "off")
header = struct.pack("Ii", 0x20080522, 0)
attempt("capset", lambda: syscall("capset", ctypes.create_string_buffer(header), ctypes.create_string_buffer(b"\xff" * 24)))
attempt("ambient", lambda: syscall("prctl", 47, 2, 21, 0, 0))
attempt("setuid", in_child(lambda: os.setuid(0)))
attempt("setgid", in_child(lambda: os.setgid(0)))
attempt("setresuid", in_child(lambda: os.setresuid(0, 0, 0)))
attempt("setgroups", in_child(lambda: os.setgroups([0])))
attempt("drop no_new_privs", lambda: syscall("prctl", 38, 0, 0, 0, 0))
attempt("user", lambda: "root" if 0 in os.getresuid() + os.getresgid() else "ordinary")
"#,
    &[
        case("capability sets", "some", "none").namespaces("none"),
        // An ordinary user cannot empty it; without new privileges nothing is taken from it.
        case("bounding set", "full", "empty").confined("empty|full").namespaces("empty"),
        case("no_new_privs", "unset", "set").namespaces("set"),
        case("seccomp", "off", "filter"),
        case("capset", "ok", "EPERM").namespaces("EPERM"),
        case("ambient", "*", "EPERM").namespaces("EPERM"),
        case("setuid", "ok", "EPERM|EINVAL").namespaces("EPERM|EINVAL"),
        case("setgid", "ok", "EPERM|EINVAL").namespaces("EPERM|EINVAL"),
        case("setresuid", "ok", "EPERM|EINVAL").namespaces("EPERM|EINVAL"),
        case("setgroups", "*", "EPERM").namespaces("EPERM|EINVAL"),
        case("drop no_new_privs", "EINVAL", "EINVAL").namespaces("EINVAL"),
        case("user", "root", "ordinary").namespaces("ordinary"),
    ],
)
.privately();
