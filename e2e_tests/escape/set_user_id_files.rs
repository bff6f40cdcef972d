//! Programs that the file system marks as running with their owner's rights.

use crate::harness::{Property, case};

pub const PROPERTY: Property = Property::probe(
    "set_user_id_files",
    "Set-user-ID files and file capabilities give a script nothing",
    r#"
def suid_files():
    found = []
    for folder in ("/usr/bin", "/usr/sbin", "/usr/lib"):
        for name in os.listdir(folder):
            try:
                if os.lstat(os.path.join(folder, name)).st_mode & stat.S_ISUID:
                    found.append(os.path.join(folder, name))
            except OSError:
                pass
    return found

def honoured():
    found = suid_files()
    if not found:
        return "there is none"
    return "ignored" if all(os.statvfs(path).f_flag & os.ST_NOSUID for path in found) else "honoured"

attempt("set-user-ID files of the system", honoured)

def own():
    path = f"{SCRATCH}/suid-{os.getpid()}"
    with open("/bin/cat", "rb") as program, open(path, "wb") as copy:
        copy.write(program.read())
    os.chmod(path, 0o6755)
    child = os.popen(f"{path} /proc/self/status").read()
    os.unlink(path)
    if not child:
        return "cannot be run"
    ids = next(line for line in child.splitlines() if line.startswith("Uid")).split()[1:]
    return "own user" if set(ids) == {str(os.getuid())} else "another"

attempt("a set-user-ID file of its own", own)
attempt("a program of root's", lambda: "own user" if "NoNewPrivs:\t1" in open("/proc/self/status").read() else "root")
attempt("every mount", lambda: "nosuid" if all(
    "nosuid" in line.split()[5] for line in open("/proc/self/mountinfo")) else "suid")
"#,
    &[
        // The confined tier mounts nothing: there no new privileges alone is what ignores them.
        case("set-user-ID files of the system", "honoured|there is none", "ignored|there is none").confined("*").namespaces("ignored|there is none"),
        case("a set-user-ID file of its own", "own user", "own user").confined("own user|cannot be run").namespaces("own user"),
        case("a program of root's", "root", "own user").namespaces("own user"),
        case("every mount", "suid", "nosuid").confined("*").namespaces("nosuid"),
    ],
)
.known_as(&["CVE-2019-18634", "CVE-2021-3156", "CVE-2021-4034", "CVE-2023-4911", "CVE-2025-32463"]);
