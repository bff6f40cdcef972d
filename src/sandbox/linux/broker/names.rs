//! Name resolution in a private network: name servers of the host appear at fixed loopback addresses inside, where the
//! launcher has bound a socket for each; datagrams go back and forth through the server.
//!
//! A question gets a socket of its own, so a random port, and at most one answer. What is asked is not looked at.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// The port of name servers.
pub const PORT: u16 = 53;

/// Name servers that the C library takes from its configuration at most (`MAXNS`).
const AT_MOST: usize = 3;

/// Questions of one name server at the same time; what comes on top is lost, as on a busy network, and asked again.
const QUESTIONS: usize = 64;

/// How long an answer is waited for: twice the C library's own patience.
const PATIENCE: Duration = Duration::from_secs(10);

/// Largest datagram, in bytes.
const DATAGRAM: usize = 65_535;

/// Where the name server at this place of the host's list appears inside.
pub fn inside(place: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, 53 + place)
}

/// The place in the host's list of the name server that appears at this address inside.
pub fn place_of(address: SocketAddr) -> Option<usize> {
    let places = 0..u8::try_from(AT_MOST).unwrap_or(u8::MAX);
    let found = places.into_iter().find(|&place| address == SocketAddr::new(inside(place).into(), PORT));
    found.map(usize::from)
}

/// The host's name servers, as they stand now.
pub fn of_host() -> Vec<SocketAddr> {
    servers(&std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default())
}

/// The name servers of a `resolv.conf`; without one it means this machine.
fn servers(text: &str) -> Vec<SocketAddr> {
    let mut found: Vec<SocketAddr> = text.lines().filter_map(server).take(AT_MOST).collect();
    if found.is_empty() {
        found.push(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), PORT));
    }
    found
}

fn server(line: &str) -> Option<SocketAddr> {
    let mut words = line.split_whitespace();
    let address = words.next().filter(|word| *word == "nameserver").and(words.next())?;
    if let Some((ip, interface)) = address.split_once('%') {
        let ip: Ipv6Addr = ip.parse().ok()?;
        return Some(SocketAddrV6::new(ip, PORT, 0, interface_index(interface)?).into());
    }
    let ip: IpAddr = address.parse().ok()?;
    Some(SocketAddr::new(ip, PORT))
}

fn interface_index(name: &str) -> Option<u32> {
    if let Ok(index) = name.parse() {
        return Some(index);
    }
    let plain = !name.contains('/') && !name.contains("..");
    let text = plain.then(|| std::fs::read_to_string(format!("/sys/class/net/{name}/ifindex")).ok())??;
    text.trim().parse().ok()
}

/// The host's `resolv.conf` with the name servers as they appear inside, and their number.
pub fn configuration(host: &str) -> (String, u8) {
    let count = u8::try_from(servers(host).len()).unwrap_or(0);
    let servers = (0..count).map(|place| format!("nameserver {}", inside(place)));
    let others = host.lines().filter(|line| !line.trim_start().starts_with("nameserver"));
    let mut lines: Vec<String> = servers.chain(others.map(str::to_owned)).collect();
    lines.push(String::new());
    (lines.join("\n"), count)
}

/// Passes datagrams on between a socket inside and the host's name server at this place, until it is dropped.
pub async fn serve(socket: std::net::UdpSocket, place: usize) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let socket = Arc::new(UdpSocket::from_std(socket)?);
    let room = Arc::new(Semaphore::new(QUESTIONS));
    let mut questions = JoinSet::new();
    let mut datagram = vec![0; DATAGRAM];
    loop {
        let (length, asker) = match socket.recv_from(&mut datagram).await {
            Ok(received) => received,
            // An earlier answer that found nobody any more.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
            Err(error) => return Err(error),
        };
        while questions.try_join_next().is_some() {}
        // Read anew: a laptop changes its network while a sandbox lives.
        let servers = of_host();
        let (Some(&server), Ok(place)) = (servers.get(place), Arc::clone(&room).try_acquire_owned()) else {
            continue;
        };
        let (socket, question) = (Arc::clone(&socket), datagram[..length].to_vec());
        questions.spawn(async move {
            // Without an answer the asker asks again, or another server.
            if let Ok(Ok(answer)) = tokio::time::timeout(PATIENCE, ask(server, &question)).await {
                let _ = socket.send_to(&answer, asker).await;
            }
            drop(place);
        });
    }
}

async fn ask(server: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(question).await?;
    let mut answer = vec![0; DATAGRAM];
    let length = socket.recv(&mut answer).await?;
    answer.truncate(length);
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_servers_are_read_as_the_c_library_does() {
        let text = "# nameserver 9.9.9.9\nsearch example\nnameserver 10.0.0.2\n nameserver ::1\nnameserver bad\n\
                    nameserver fe80::1%7\nnameserver 1.1.1.1\n";
        let found: Vec<String> = servers(text).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["10.0.0.2:53", "[::1]:53", "[fe80::1%7]:53"]);
        assert_eq!(servers(""), ["127.0.0.1:53".parse().expect("an address")]);
    }

    #[test]
    fn inside_only_the_servers_are_other_ones() {
        let host = "search example.org\nnameserver 10.0.0.2\noptions edns0\nnameserver 10.0.0.3\n";
        let expected = "nameserver 127.0.0.53\nnameserver 127.0.0.54\nsearch example.org\noptions edns0\n";
        assert_eq!(configuration(host), (expected.to_owned(), 2));
        assert_eq!(configuration(""), ("nameserver 127.0.0.53\n".to_owned(), 1));
    }

    #[test]
    fn places_and_addresses_belong_together() {
        for place in 0..3 {
            assert_eq!(place_of(SocketAddr::new(inside(place).into(), PORT)), Some(usize::from(place)));
        }
        assert_eq!(place_of("127.0.0.53:54".parse().expect("an address")), None);
        assert_eq!(place_of("127.0.0.56:53".parse().expect("an address")), None);
    }
}
