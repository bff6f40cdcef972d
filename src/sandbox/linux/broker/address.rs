//! Where a connection out of a private network may lead. Pure: addresses in, verdicts out.

use std::net::SocketAddr;

use super::names;
use crate::sandbox::reserved::is_reserved;

/// Which addresses a run may connect to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Servers on the host that the user has named for programs to use, such as a local proxy.
    exceptions: Vec<SocketAddr>,
    /// The host's name servers, in its order.
    name_servers: Vec<SocketAddr>,
}

/// What is decided about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It belongs to the run's own network: the kernel carries the call out there.
    Inside,
    /// Nobody in the sandbox connects to it.
    Refused,
    /// The server connects, to this address.
    Outside(SocketAddr),
}

impl Policy {
    /// A policy with these exceptions to the rule that nothing of the host can be reached.
    pub fn new(exceptions: Vec<SocketAddr>, name_servers: Vec<SocketAddr>) -> Self {
        Self { exceptions, name_servers }
    }

    /// Decides on an address that a script asks for.
    pub fn verdict(&self, asked: SocketAddr) -> Verdict {
        let ip = asked.ip().to_canonical();
        let canonical = SocketAddr::new(ip, asked.port());
        if let Some(server) = names::place_of(canonical).and_then(|place| self.name_servers.get(place)) {
            return Verdict::Outside(*server);
        }
        let named = |list: &[SocketAddr]| {
            list.iter().any(|one| one.ip().to_canonical() == ip && one.port() == asked.port())
        };
        if named(&self.exceptions) {
            return Verdict::Outside(asked);
        }
        if ip.is_loopback() || ip.is_unspecified() {
            return Verdict::Inside;
        }
        if named(&self.name_servers) || !is_reserved(ip) {
            return Verdict::Outside(asked);
        }
        Verdict::Refused
    }

    /// Whether the user has named it, so that it may be an address of the host itself.
    pub fn is_named(&self, destination: SocketAddr) -> bool {
        self.exceptions.iter().chain(&self.name_servers).any(|one| {
            one.ip().to_canonical() == destination.ip().to_canonical() && one.port() == destination.port()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> Policy {
        let parse = |text: &str| text.parse().expect("an address");
        Policy::new(
            vec![parse("127.0.0.1:3128")],
            vec![parse("127.0.0.11:53"), parse("[fe80::1]:53"), parse("169.254.169.253:53")],
        )
    }

    fn verdict(asked: &str) -> Verdict {
        policy().verdict(asked.parse().expect("an address"))
    }

    #[test]
    fn the_runs_own_network_stays_inside() {
        for asked in [
            "127.0.0.1:80",
            "127.0.0.1:53",
            "127.9.9.9:5432",
            "0.0.0.0:80",
            "[::1]:80",
            "[::]:80",
            "[::ffff:127.0.0.1]:80",
            "[::ffff:0.0.0.0]:80",
            "127.0.0.53:54",
            "127.0.0.56:53",
            "127.0.0.11:53",
        ] {
            assert_eq!(verdict(asked), Verdict::Inside, "{asked}");
        }
    }

    #[test]
    fn this_machine_its_link_and_nobody_are_refused() {
        for asked in [
            "169.254.169.254:80",
            "169.254.170.2:80",
            "169.254.0.1:22",
            "169.254.169.253:80",
            "[::ffff:169.254.169.254]:80",
            "[::169.254.169.254]:80",
            "[64:ff9b::169.254.169.254]:80",
            "[64:ff9b::127.0.0.1]:80",
            "[2002:a9fe:a9fe::1]:80",
            "[2002:7f00:1::1]:80",
            "[fe80::1]:80",
            "[febf:ffff::1]:80",
            "[fec0::1]:80",
            "[fd00:ec2::254]:80",
            "[fd20:ce::254]:80",
            "100.100.100.200:80",
            "100.100.100.100:80",
            "168.63.129.16:80",
            "192.0.0.192:80",
            "0.1.2.3:80",
            "224.0.0.1:80",
            "239.255.255.250:1900",
            "240.0.0.1:80",
            "255.255.255.255:80",
            "[ff02::1]:80",
        ] {
            assert_eq!(verdict(asked), Verdict::Refused, "{asked}");
        }
    }

    #[test]
    fn everything_else_is_connected_by_the_server_as_asked() {
        for asked in [
            "93.184.216.34:443",
            "10.0.0.7:5432",
            "172.16.0.1:80",
            "192.168.1.1:80",
            "100.64.0.1:80",
            "[2606:2800::1]:443",
            "[fd12:3456::1]:80",
            "[::ffff:93.184.216.34]:443",
            "[64:ff9b::93.184.216.34]:443",
            "1.2.3.4:53",
        ] {
            assert_eq!(verdict(asked), Verdict::Outside(asked.parse().expect("an address")), "{asked}");
        }
    }

    #[test]
    fn what_the_user_named_can_be_reached_at_its_port_only() {
        let outside = |text: &str| Verdict::Outside(text.parse().expect("an address"));
        assert_eq!(verdict("127.0.0.1:3128"), outside("127.0.0.1:3128"));
        assert_eq!(verdict("127.0.0.1:3129"), Verdict::Inside);
        assert_eq!(verdict("127.0.0.53:53"), outside("127.0.0.11:53"));
        assert_eq!(verdict("127.0.0.54:53"), outside("[fe80::1]:53"));
        assert_eq!(verdict("[::ffff:127.0.0.55]:53"), outside("169.254.169.253:53"));
        assert_eq!(verdict("169.254.169.253:53"), outside("169.254.169.253:53"));
        assert!(policy().is_named("127.0.0.11:53".parse().expect("an address")));
        assert!(!policy().is_named("127.0.0.11:80".parse().expect("an address")));
    }
}
