//! Services that trust whoever can reach them: on loopback, on link-local addresses, in the local network.

use std::net::{TcpListener, UdpSocket};

use crate::harness::{Ground, Property, Stage, case};

pub const PROPERTY: Property = Property::probe(
    "services_of_the_host",
    "With --network none a script reaches no service of the host or its network",
    r#"
attempt("TCP on loopback", connected(socket.AF_INET, ("127.0.0.1", ARGS["tcp"])))
attempt("TCP on loopback, version 6 of the protocol", connected(socket.AF_INET6, ("::ffff:127.0.0.1", ARGS["tcp"])))

def datagram():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(5)
        client.connect(("127.0.0.1", ARGS["udp"]))
        client.send(b"x")
        client.send(b"x")

attempt("UDP on loopback", datagram)
attempt("metadata address", connected(socket.AF_INET, ("169.254.169.254", 80)))
attempt("metadata address, version 6", connected(socket.AF_INET6, ("fd00:ec2::254", 80)))
attempt("private network", connected(socket.AF_INET, ("10.0.0.1", 80)))
attempt("internet", connected(socket.AF_INET, ("192.0.2.1", 80)))
attempt("fast open", lambda: socket.socket().sendto(b"x", 0x20000000, ("127.0.0.1", ARGS["tcp"])) and None)
def interfaces():
    return "loopback" if [name for _, name in socket.if_nameindex()] == ["lo"] else "more"
attempt("interfaces", interfaces)
def own_server():
    server = socket.create_server(("127.0.0.1", 0))
    socket.create_connection(server.getsockname()).close()
attempt("a server of its own", own_server)
"#,
    &[
        case("TCP on loopback", "ok", "ECONNREFUSED").namespaces("ECONNREFUSED"),
        case("TCP on loopback, version 6 of the protocol", "ok", "ECONNREFUSED").namespaces("ECONNREFUSED"),
        case("UDP on loopback", "ok", "ECONNREFUSED").namespaces("ECONNREFUSED"),
        case("metadata address", "*", "ENETUNREACH").namespaces("ENETUNREACH"),
        case("metadata address, version 6", "*", "ENETUNREACH|EADDRNOTAVAIL").namespaces("ENETUNREACH|EADDRNOTAVAIL"),
        case("private network", "*", "ENETUNREACH").namespaces("ENETUNREACH"),
        case("internet", "*", "ENETUNREACH").namespaces("ENETUNREACH"),
        case("fast open", "*", "ECONNREFUSED").namespaces("ECONNREFUSED"),
        case("interfaces", "*", "loopback").confined("EAFNOSUPPORT").namespaces("loopback"),
        case("a server of its own", "ok", "ok").confined("EAFNOSUPPORT").namespaces("ok"),
    ],
)
.staged(stage);

fn stage(_: &Ground) -> Result<Stage, String> {
    let words = |error: std::io::Error| error.to_string();
    let tcp = TcpListener::bind(("127.0.0.1", 0)).map_err(words)?;
    let udp = UdpSocket::bind(("127.0.0.1", 0)).map_err(words)?;
    let ports = (tcp.local_addr().map_err(words)?.port(), udp.local_addr().map_err(words)?.port());
    Ok(Stage::with("tcp", ports.0).and("udp", ports.1).hold((tcp, udp)))
}
