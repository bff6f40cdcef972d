//! A control group of the first version with `release_agent` runs a program of the caller's choice as root outside.

use crate::harness::{Property, case};

pub const PROPERTY: Property = Property::probe(
    "control_groups",
    "A script cannot mount or reach control groups, nor set a release agent",
    r#"
groups = f"{SCRATCH}/groups".encode()
os.makedirs(groups, exist_ok=True)
attempt("mount, version 1", lambda: syscall("mount", b"none", groups, b"cgroup", 0, b"rdma"))
attempt("mount, version 2", lambda: syscall("mount", b"none", groups, b"cgroup2", 0, None))
attempt("in a namespace of its own", in_child(lambda: syscall("unshare", NEW["cgroup"])))
attempt("/sys/fs/cgroup", lambda: os.listdir("/sys/fs/cgroup") and None)
def agent():
    for top in ("/sys", "/tmp"):
        for folder, _, names in os.walk(top):
            if {"release_agent", "cgroup.procs"} & set(names):
                return "found"
    return "none"
attempt("any file of theirs", agent)
"#,
    &[
        case("mount, version 1", "*", "EPERM").namespaces("EPERM").seccomp("EPERM"),
        case("mount, version 2", "ok|EBUSY|EPERM|ENODEV", "EPERM").namespaces("EPERM").seccomp("EPERM"),
        case("in a namespace of its own", "ok", "EPERM").namespaces("EPERM").seccomp("EPERM"),
        case("/sys/fs/cgroup", "ok|ENOENT", "ENOENT").namespaces("ENOENT").landlock("ok|EACCES|ENOENT"),
        case("any file of theirs", "*", "none").namespaces("none"),
    ],
)
.privately()
.known_as(&["CVE-2022-0492"]);
