//! Names: the resolver of the C library, by datagram and by stream, and where a name leads to.

use super::lab::{As, run};

#[test]
fn names_are_resolved() {
    let script = r#"
def addresses(name, *more):
    return sorted({found[4][0] for found in socket.getaddrinfo(name, 80, *more)})
told("both", lambda: addresses("world.test"))
told("four", lambda: addresses("four.test", socket.AF_INET))
told("configured", lambda: addresses("four.test", socket.AF_INET, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG))
told("long", lambda: addresses("long.test"))
told("nobody", lambda: addresses("nobody.example"))
told("by_name", lambda: greeting("world.test"))
def many():
    found = []
    threads = [threading.Thread(target=lambda: found.append(addresses("world.test"))) for _ in range(30)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return [len(found), len({str(one) for one in found})]
told("many", many)
told("servers", lambda: [line.split()[1] for line in open("/etc/resolv.conf") if line.startswith("nameserver")])
told("options", lambda: "options timeout:2 attempts:2" in open("/etc/resolv.conf").read())
def resolve_unbound():
    query = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04four\x04test\x00\x00\x01\x00\x01"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stream:
        stream.settimeout(5)
        stream.sendto(query, ("127.0.0.53", 53))
        return stream.recvfrom(512)[0]
told("unbound", lambda: len(resolve_unbound()))
"#;
    let Some(told) = run(script, &[], As::Caller) else { return };
    told.assert(&[
        ("both", "['2606:2800::1', '93.184.216.34']"),
        ("four", "['93.184.216.34']"),
        ("configured", "['93.184.216.34']"),
        ("long", "['93.184.216.34']"),
        ("by_name", "hello"),
        ("many", "[30, 1]"),
        ("servers", "['127.0.0.53']"),
        ("options", "True"),
        ("unbound", "43"),
    ]);
    assert!(told.of("nobody").contains("gaierror"), "{}", told.text);
}

/// A name that leads to the machine leads to the script's own loopback.
#[test]
fn a_name_for_this_machine_stays_inside() {
    let script = r#"
told("closed", lambda: greeting("local.test", 8000))
server = socket.create_server(("127.0.0.1", 8000))
def own():
    with socket.create_connection(("local.test", 8000), timeout=5):
        return server.accept()[1][0]
told("open", own)
"#;
    let Some(told) = run(script, &[], As::Caller) else { return };
    told.assert(&[("closed", "ECONNREFUSED"), ("open", "127.0.0.1")]);
    told.assert_nobody_came();
}
