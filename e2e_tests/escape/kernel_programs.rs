//! Programs inside the kernel and its counters: bpf, perf, filters on sockets.

use crate::harness::{Property, case};

pub const PROPERTY: Property = Property::probe(
    "kernel_programs",
    "A script cannot load programs into the kernel or open its counters",
    r#"
attributes = ctypes.create_string_buffer(120)
attempt("bpf, a map", lambda: os.close(syscall("bpf", 0, ctypes.create_string_buffer(struct.pack("4I", 2, 4, 4, 1) + bytes(104)), 120)))
attempt("bpf, unknown command", lambda: syscall("bpf", 9999, attributes, 120))
attempt("perf_event_open", lambda: os.close(syscall("perf_event_open", ctypes.create_string_buffer(struct.pack("IIQ", 1, 112, 0) + bytes(96)), 0, -1, -1, 0)))

code = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0xFFFF))
program = struct.pack("HxxxxxxQ", 1, ctypes.addressof(code))
attempt("SO_ATTACH_FILTER", lambda: socket.socketpair()[0].setsockopt(socket.SOL_SOCKET, 26, program))
attempt("SO_ATTACH_BPF", lambda: socket.socketpair()[0].setsockopt(socket.SOL_SOCKET, 50, struct.pack("i", -1)))
attempt("SO_ATTACH_REUSEPORT_CBPF", lambda: socket.socketpair()[0].setsockopt(socket.SOL_SOCKET, 51, program))
attempt("TCP_ULP", lambda: socket.socketpair()[0].setsockopt(socket.IPPROTO_TCP, 31, b"none"))
"#,
    &[
        case("bpf, a map", "ok|EPERM", "EPERM").outside_root("ok").seccomp("EPERM"),
        case("bpf, unknown command", "EINVAL|EPERM", "EPERM").outside_root("EINVAL").seccomp("EPERM"),
        case("perf_event_open", "ok|EACCES|ENOENT|EPERM", "EPERM").seccomp("EPERM"),
        // EPERM: the kernel's memory for such programs is used up.
        case("SO_ATTACH_FILTER", "ok|EPERM", "EPERM").seccomp("EPERM"),
        case("SO_ATTACH_BPF", "EBADF", "EPERM").seccomp("EPERM"),
        case("SO_ATTACH_REUSEPORT_CBPF", "*", "EPERM").seccomp("EPERM"),
        case("TCP_ULP", "ENOTSUP|ENOPROTOOPT|EINVAL", "ENOPROTOOPT").seccomp("ENOPROTOOPT"),
    ],
)
.known_as(&["CVE-2013-2094", "CVE-2017-16995", "CVE-2020-8835", "CVE-2021-3490", "CVE-2022-23222", "CVE-2023-0461", "CVE-2026-46300"]);
