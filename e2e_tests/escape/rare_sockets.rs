//! Each family and protocol of sockets is a part of the kernel in reach of everybody.

use crate::harness::{Property, case};

pub const PROPERTY: Property = Property::probe(
    "rare_sockets",
    "A script can make local, TCP and UDP sockets and no others",
    r#"
def made(family, kind=socket.SOCK_DGRAM, protocol=0):
    def tried():
        os.close(syscall("socket", family, kind, protocol))
    return tried

attempt("TCP", made(socket.AF_INET, socket.SOCK_STREAM))
attempt("UDP", made(socket.AF_INET6))
attempt("local", made(socket.AF_UNIX, socket.SOCK_STREAM))
for name, number in {"AX25": 3, "X25": 9, "KEY": 15, "RDS": 21, "PPPOX": 24, "LLC": 26, "IB": 27, "MPLS": 28, "CAN": 29,
                     "TIPC": 30, "BLUETOOTH": 31, "RXRPC": 33, "PHONET": 35, "IEEE802154": 36, "CAIF": 37, "NFC": 39, "KCM": 41, "QIPCRTR": 42, "SMC": 43}.items():
    attempt(name, made(number, socket.SOCK_RAW if name in ("KEY", "CAN") else
                       socket.SOCK_SEQPACKET if name in ("RDS", "TIPC") else
                       socket.SOCK_STREAM if name == "SMC" else socket.SOCK_DGRAM))
attempt("ping", made(socket.AF_INET, socket.SOCK_DGRAM, 1))
attempt("SCTP", made(socket.AF_INET, socket.SOCK_STREAM, 132))
attempt("MPTCP", made(socket.AF_INET, socket.SOCK_STREAM, 262))
attempt("UDP-Lite", made(socket.AF_INET, socket.SOCK_DGRAM, 136))
attempt("DCCP", made(socket.AF_INET, 6, 33))
attempt("L2TP", made(socket.AF_INET, socket.SOCK_DGRAM, 115))
attempt("pair of TIPC", lambda: syscall("socketpair", 30, socket.SOCK_SEQPACKET, 0, ctypes.create_string_buffer(8)))
"#,
    &[
        // In the confined tier without a network there is no socket for one.
        case("TCP", "ok", "ok").confined("EAFNOSUPPORT").seccomp("ok"),
        case("UDP", "ok", "ok").confined("EAFNOSUPPORT").seccomp("ok"),
        // Landlock guards paths from ABI 9 on.
        case("local", "ok", "ok").confined("ok|EAFNOSUPPORT").seccomp("ok"),
        case("AX25", "*", "EAFNOSUPPORT").seccomp("EAFNOSUPPORT"),
        case("X25", "*", "EAFNOSUPPORT").seccomp("EAFNOSUPPORT"),
        case("KEY", "*", "EAFNOSUPPORT").seccomp("EAFNOSUPPORT"),
        case("RDS", "*", "EAFNOSUPPORT").seccomp("EAFNOSUPPORT"),
        case("PPPOX", "*", "EAFNOSUPPORT").seccomp("EAFNOSUPPORT"),
        case("LLC", "*", "EAFNOSUPPORT").seccomp("EAFNOSUPPORT"),
        case("IB", "*", "EAFNOSUPPORT").seccomp("EAFNOSUPPORT"),
        case("MPLS", "*", "EAFNOSUPPORT").seccomp("EAFNOSUPPORT"),
        case("CAN", "*", "EAFNOSUPPORT").seccomp("EAFNOSUPPORT"),
        case("TIPC", "*", "EAFNOSUPPORT").seccomp("EAFNOSUPPORT"),
        case("BLUETOOTH", "*", "EAFNOSUPPORT").seccomp("EAFNOSUPPORT"),
        case("RXRPC", "*", "EAFNOSUPPORT").seccomp("EAFNOSUPPORT"),
        case("PHONET", "*", "EAFNOSUPPORT").seccomp("EAFNOSUPPORT"),
        case("IEEE802154", "*", "EAFNOSUPPORT").seccomp("EAFNOSUPPORT"),
        case("CAIF", "*", "EAFNOSUPPORT").seccomp("EAFNOSUPPORT"),
        case("NFC", "*", "EAFNOSUPPORT").seccomp("EAFNOSUPPORT"),
        case("KCM", "*", "EAFNOSUPPORT").seccomp("EAFNOSUPPORT"),
        case("QIPCRTR", "*", "EAFNOSUPPORT").seccomp("EAFNOSUPPORT"),
        case("SMC", "*", "EAFNOSUPPORT").seccomp("EAFNOSUPPORT"),
        // Whatever it is answered with, this kernel has it.
        case("ping", "ok|EACCES", "EPROTONOSUPPORT").seccomp("EPROTONOSUPPORT"),
        case("SCTP", "*", "EPROTONOSUPPORT").seccomp("EPROTONOSUPPORT"),
        case("MPTCP", "ok|EPROTONOSUPPORT|ENOPROTOOPT", "EPROTONOSUPPORT").seccomp("EPROTONOSUPPORT"),
        case("UDP-Lite", "*", "EPROTONOSUPPORT").seccomp("EPROTONOSUPPORT"),
        case("DCCP", "*", "EPROTONOSUPPORT").seccomp("EPROTONOSUPPORT"),
        case("L2TP", "*", "EPROTONOSUPPORT").seccomp("EPROTONOSUPPORT"),
        case("pair of TIPC", "*", "EAFNOSUPPORT").seccomp("EAFNOSUPPORT"),
    ],
)
.known_as(&["CVE-2010-3904", "CVE-2017-6074", "CVE-2021-43267", "CVE-2022-0435", "CVE-2026-43500"]);
