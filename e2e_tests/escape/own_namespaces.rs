//! Each namespace of a run is its own.

use crate::harness::{Ground, Need, Property, Stage, case};

pub const PROPERTY: Property = Property::probe(
    "own_namespaces",
    "A script shares no namespace with the server but, where the network is the host's, that one",
    r#"
for name, there in ARGS["namespaces"].items():
    attempt(name, lambda: "shared" if os.readlink(f"/proc/self/ns/{name}") == there else "own")
attempt("processes that are seen", lambda: "own" if len(list(filter(str.isdigit, os.listdir("/proc")))) <= 3 else "many")
attempt("host name", lambda: "own" if os.uname().nodename != ARGS["host"] else "shared")
"#,
    &[
        case("user", "shared", "own").namespaces("own"),
        case("mnt", "shared", "own").namespaces("own"),
        case("pid", "shared", "own").namespaces("own"),
        case("ipc", "shared", "own").namespaces("own"),
        case("uts", "shared", "own").namespaces("own"),
        case("cgroup", "shared", "own").namespaces("own"),
        case("net", "shared", "own").namespaces("own"),
        case("processes that are seen", "many", "own").namespaces("own"),
        case("host name", "shared", "own").namespaces("own"),
    ],
)
.staged(stage)
.needs(&[Need::Namespaces]);

fn stage(_: &Ground) -> Result<Stage, String> {
    let name = |kind: &str| {
        let link = std::fs::read_link(format!("/proc/self/ns/{kind}")).map_err(|error| error.to_string())?;
        Ok::<_, String>((kind.to_owned(), link.display().to_string().into()))
    };
    let kinds = ["user", "mnt", "pid", "ipc", "uts", "cgroup", "net"];
    let names = kinds.into_iter().map(name).collect::<Result<serde_json::Map<_, _>, _>>()?;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").map_err(|error| error.to_string())?;
    Ok(Stage::with("namespaces", names).and("host", host.trim()))
}
