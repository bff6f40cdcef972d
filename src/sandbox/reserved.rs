//! Which addresses are this machine, its link, or nobody: no script is led there. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses of cloud providers that hand out credentials or settings of the machine, outside the link-local ranges:
/// Alibaba's metadata, Azure's host agent, Oracle's metadata, Tailscale's own service.
const SERVICES_V4: [Ipv4Addr; 4] = [
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
    Ipv4Addr::new(100, 100, 100, 100),
];

/// The same over IPv6, as the first two groups: Amazon's services and Google's metadata.
const SERVICES_V6: [[u16; 2]; 2] = [[0xfd00, 0x0ec2], [0xfd20, 0x00ce]];

/// Ranges that are this machine, its link, or nobody. Private ranges are not among them, as package indexes and databases of a
/// company live there.
pub fn is_reserved(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let [first, ..] = ip.octets();
            first == 0 || first == 127 || first >= 224 || ip.is_link_local() || SERVICES_V4.contains(&ip)
        }
        IpAddr::V6(ip) => {
            let groups = ip.segments();
            ip.is_loopback()
                || ip.is_unspecified()
                || ip.is_multicast()
                // Link-local fe80::/10, and fec0::/10, which once meant the same site.
                || groups[0] & 0xff80 == 0xfe80
                || SERVICES_V6.contains(&[groups[0], groups[1]])
                || embedded(ip).is_some_and(|ip| is_reserved(IpAddr::V4(ip)))
        }
    }
}

/// The IPv4 address that a translator or tunnel would reach through an IPv6 one: `64:ff9b::/96`, `2002::/16`, and the
/// old compatible form `::/96`.
fn embedded(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let of = |high: u16, low: u16| Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match ip.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0, 0, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            of(high, low)
        }
        _ => None,
    }
}
