//! Abstract sockets belong to the network namespace: with a network of its own none of the host's is there.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};

use crate::harness::{Ground, Property, Stage, case};

pub const PROPERTY: Property = Property::probe(
    "abstract_sockets",
    "With --network none a script reaches no abstract socket of the host",
    r#"
attempt("a service", connected(socket.AF_UNIX, "\0" + ARGS["name"]))
"#,
    &[case("a service", "ok", "ECONNREFUSED|EPERM").namespaces("ECONNREFUSED").landlock("EPERM|ok")],
)
.staged(stage)
.known_as(&["CVE-2020-15257"]);

/// A listener on an abstract name of this property's own.
pub fn stage(ground: &Ground) -> Result<Stage, String> {
    let name = format!("escape-{}", ground.folder.path().display());
    let address = SocketAddr::from_abstract_name(&name).map_err(|error| error.to_string())?;
    let listener = UnixListener::bind_addr(&address).map_err(|error| error.to_string())?;
    let datagrams = SocketAddr::from_abstract_name(format!("{name}-d")).map_err(|error| error.to_string())?;
    let datagrams = UnixDatagram::bind_addr(&datagrams).map_err(|error| error.to_string())?;
    Ok(Stage::with("name", name).hold((listener, datagrams)))
}
