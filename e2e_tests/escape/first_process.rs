//! Process 1 of a run was started by the server: what it holds in memory, environment and descriptors is closed.

use crate::harness::{Property, case};

pub const PROPERTY: Property = Property::probe(
    "first_process",
    "A script cannot look into process 1 of its sandbox",
    r#"
for name in ("environ", "mem", "maps", "auxv", "io", "stack", "pagemap", "syscall"):
    def read(name=name):
        with open(f"/proc/1/{name}", "rb") as file:
            file.read(1) if name != "mem" else None
    attempt(name, read)
attempt("mem for writing", opened("/proc/1/mem", os.O_RDWR))
attempt("descriptors", lambda: os.listdir("/proc/1/fd") and None)
attempt("map_files", lambda: os.listdir("/proc/1/map_files") and None)
attempt("root", lambda: os.listdir("/proc/1/root") and None)
attempt("working directory", lambda: os.readlink("/proc/1/cwd") and None)
"#,
    &[
        case("environ", "ok", "EACCES").namespaces("EACCES"),
        case("mem", "ok", "EACCES").namespaces("EACCES"),
        case("maps", "ok", "EACCES").namespaces("EACCES"),
        case("auxv", "ok", "EACCES").namespaces("EACCES"),
        case("io", "ok", "EACCES").namespaces("EACCES"),
        case("stack", "*", "EACCES|EPERM|ENOENT").namespaces("EACCES|EPERM|ENOENT"),
        case("pagemap", "ok", "EACCES|EPERM").namespaces("EACCES|EPERM"),
        case("syscall", "*", "EACCES|EPERM|ENOENT").namespaces("EACCES|EPERM|ENOENT"),
        case("mem for writing", "ok", "EACCES|EROFS").namespaces("EACCES|EROFS"),
        case("descriptors", "ok", "EACCES").namespaces("EACCES"),
        case("map_files", "ok", "EACCES|EPERM").namespaces("EACCES|EPERM"),
        case("root", "ok", "EACCES").namespaces("EACCES"),
        case("working directory", "ok", "EACCES").namespaces("EACCES"),
    ],
)
.privately()
.known_as(&["CVE-2016-9962"]);
