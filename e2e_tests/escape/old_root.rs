//! The host's root is left behind altogether: no mount of it is attached anywhere.

use crate::harness::{Need, Property, case};

pub const PROPERTY: Property = Property::probe(
    "old_root",
    "The root is an empty file system in memory, and no mount shows the host's",
    r#"
def mounts():
    with open("/proc/self/mountinfo") as file:
        return [line.split() for line in file]

def host_root():
    memory = {"tmpfs", "proc", "devpts"}
    kinds = [(fields[3], fields[4], fields[fields.index("-") + 1]) for fields in mounts()]
    return "shown" if any(root == "/" and kind not in memory for root, _, kind in kinds) else "gone"

def own_root():
    top = [fields for fields in mounts() if fields[4] == "/"]
    return "memory" if len(top) == 1 and top[0][top[0].index("-") + 1] == "tmpfs" else "something else"

def propagation():
    return "private" if not any(field.startswith(("shared:", "master:")) for fields in mounts() for field in fields) else "shared"

def writable():
    allowed = ("/work", "/home/sandbox", "/tmp", "/var/tmp", "/dev/shm", "/dev/pts")
    devices = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
    return "more" if [fields[4] for fields in mounts() if "rw" in fields[5].split(",") and fields[4] not in allowed + devices] else "scratch"

attempt("the host's root", host_root)
attempt("own root", own_root)
attempt("propagation", propagation)
attempt("writable mounts", writable)
attempt("where the root was put together", lambda: os.listdir("/tmp/tmp") and None)
"#,
    &[
        case("the host's root", "shown", "gone").namespaces("gone"),
        case("own root", "something else", "memory").namespaces("memory"),
        case("propagation", "*", "private").namespaces("private"),
        case("writable mounts", "more", "scratch").namespaces("scratch"),
        case("where the root was put together", "*", "ENOENT").namespaces("ENOENT"),
    ],
)
.needs(&[Need::Namespaces]);
