//! A file that exists in memory only could be run without ever appearing in a folder.

use crate::harness::{Need, Property, case};

pub const PROPERTY: Property = Property::probe(
    "memory_files",
    "A file in memory cannot be executed",
    r#"
def filled(flags):
    file = syscall("memfd_create", b"escape", flags)
    with open(os.path.realpath("/bin/true"), "rb") as program:
        os.write(file, program.read())
    return file

def executed(flags):
    def tried():
        file = filled(flags)
        os.execve(file, ["true"], {})
    return tried

attempt("made", lambda: os.close(syscall("memfd_create", b"escape", 1)))
attempt("executed", in_child(executed(1)))
attempt("executed by /proc", in_child(lambda: os.execve(f"/proc/self/fd/{filled(0)}", ["true"], {})))
attempt("made executable", in_child(lambda: os.fchmod(filled(1), 0o777)))
attempt("asked for as executable", lambda: os.close(syscall("memfd_create", b"escape", 0x10)))
attempt("asked for as executable, high bits", lambda: os.close(syscall("memfd_create", b"escape", 0x10 | 1 << 33)))
"#,
    &[
        case("made", "ok", "ok"),
        case("executed", "", "EACCES"),
        case("executed by /proc", "", "EACCES").confined("|EACCES"),
        case("made executable", "ok", "EPERM").confined("ok"),
        case("asked for as executable", "ok", "EPERM").seccomp("EPERM"),
        case("asked for as executable, high bits", "*", "EPERM").seccomp("EPERM"),
    ],
)
.needs(&[Need::Kernel(6, 3)]);
