//! A socket that was handed in cannot be made to reach anybody else, whatever the script does with it.

use mcp_python_exec_sandbox::launcher::sys::landlock_abi;

use super::lab::{As, run};

const DISCONNECT: &str = r#"
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def raw_connect(stream, packed):
    if libc.connect(stream.fileno(), packed, len(packed)):
        raise OSError(ctypes.get_errno(), "connect")
def disconnect(stream):
    raw_connect(stream, struct.pack("=H14x", 0))
def handed():
    stream = tcp()
    stream.connect((WORLD, 7000))
    stream.settimeout(0.5)
    return stream
"#;

#[test]
fn a_socket_that_was_handed_in_stays_with_its_peer() {
    let script = r#"
stream = handed()
told("disconnected", lambda: disconnect(stream))
told("loopback", lambda: stream.connect(("127.0.0.1", 8000)))
told("machine", lambda: stream.connect(("198.51.100.1", 8000)))
told("metadata", lambda: stream.connect(("169.254.169.254", 7000)))
told("bind", lambda: stream.bind(("0.0.0.0", 8765)))
told("listen", lambda: stream.listen(1))
told("fast_open", lambda: stream.sendto(b"x", 0x20000000, ("127.0.0.1", 8000)))
told("fast_open_message", lambda: stream.sendmsg([b"x"], [], 0x20000000, ("127.0.0.1", 8000)))
told("deferred", lambda: stream.setsockopt(socket.IPPROTO_TCP, 30, 1))
told("filter", lambda: stream.setsockopt(socket.SOL_SOCKET, 26, b"\0" * 16))
def elsewhere():
    stream.connect((WORLD, 7000))
    return stream.recv(5).decode()
told("peer_again", elsewhere)
"#;
    for who in [As::Caller, As::User] {
        let Some(told) = run(&[DISCONNECT, script].concat(), &[], who) else { continue };
        told.assert(&[
            ("disconnected", "None"),
            ("loopback", "ENETUNREACH"),
            ("machine", "EACCES"),
            ("metadata", "EACCES"),
            ("bind", "EINVAL"),
            ("listen", "EINVAL"),
            ("fast_open", "ENOTSUP"),
            ("fast_open_message", "ENOTSUP"),
            ("deferred", "ENOPROTOOPT"),
            ("filter", "EPERM"),
            ("peer_again", "hello"),
        ]);
        told.assert_nobody_came();
    }
}

/// The server makes them, as it is the only listener that the kernel allows.
#[test]
fn files_in_memory_cannot_be_executed() {
    let script = r#"
import mmap
def made(flags):
    number = os.memfd_create("name", flags)
    os.ftruncate(number, 4096)
    with mmap.mmap(number, 4096) as memory:
        memory[:6] = b"shared"
    return [os.pread(number, 6, 0), fcntl.fcntl(number, fcntl.F_GETFD)]
told("made", lambda: made(0))
told("closed_at_exec", lambda: made(os.MFD_CLOEXEC))
told("sealed_by_itself", lambda: made(8))
told("sealable", lambda: fcntl.fcntl(os.memfd_create("name", os.MFD_ALLOW_SEALING), fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW))
told("executable", lambda: os.memfd_create("name", 16))
told("unknown_flag", lambda: os.memfd_create("name", 1 << 20))
def executed():
    number = os.memfd_create("name", 0)
    os.write(number, open("/bin/true", "rb").read())
    child = os.fork()
    if child == 0:
        try:
            os.execve(number, ["true"], {})
        except OSError as error:
            os._exit(error.errno)
    return errno.errorcode.get(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), "executed")
told("executed", executed)
told("changed", lambda: os.fchmod(os.memfd_create("name", 0), 0o777))
"#;
    if rustix::fs::memfd_create("probe", rustix::fs::MemfdFlags::NOEXEC_SEAL).is_err() {
        crate::skipped::skipped("the kernel has no such seal (Linux 6.3)");
        return;
    }
    for who in [As::Caller, As::User] {
        let Some(told) = run(script, &[], who) else { continue };
        told.assert(&[
            ("made", "[b'shared', 0]"),
            ("closed_at_exec", "[b'shared', 1]"),
            ("sealed_by_itself", "[b'shared', 0]"),
            ("sealable", "0"),
            ("executable", "EPERM"),
            ("unknown_flag", "EINVAL"),
            ("executed", "EACCES"),
            ("changed", "EPERM"),
        ]);
    }
}

/// One thread asks for what the kernel may carry out by itself, a local socket; others change the address and the
/// descriptor under it. Where Landlock stands guard, its own answer shows that the race was won: the server would refuse
/// this address in other words.
#[test]
fn a_race_for_memory_and_descriptors_leads_nowhere() {
    let script = r#"
import mmap
page = mmap.mmap(-1, 4096)
where = ctypes.addressof(ctypes.c_char.from_buffer(page))
local = struct.pack("=H", 1) + b"\0nobody".ljust(14, b"\0")
target = socket.inet_aton("127.0.0.1")
inet = struct.pack("=H", 2) + struct.pack("!H", 8000) + target + bytes(8)
spent = handed()
disconnect(spent)
spent.setblocking(False)
plain = socket.socket(socket.AF_UNIX)
plain.setblocking(False)
number = os.dup(plain.fileno())
stop = False
def change():
    while not stop:
        page[0:16] = inet
        os.dup2(spent.fileno(), number)
        page[0:16] = local
        os.dup2(plain.fileno(), number)
threads = [threading.Thread(target=change, daemon=True) for _ in range(2)]
[thread.start() for thread in threads]
answers = {}
end = time.monotonic() + 6
while time.monotonic() < end:
    ctypes.set_errno(0)
    code = libc.connect(number, ctypes.c_void_p(where), 16)
    name = errno.errorcode.get(ctypes.get_errno(), "0") if code else "connected"
    answers[name] = answers.get(name, 0) + 1
stop = True
print("answers", answers)
told("connected", lambda: answers.get("connected", 0))
told("peer", lambda: spent.getpeername())
"#;
    for who in [As::Caller, As::User] {
        let Some(told) = run(&[DISCONNECT, script].concat(), &[], who) else { continue };
        println!("{who:?}: {}", told.of("answers"));
        told.assert(&[("connected", "0"), ("peer", "ENOTCONN")]);
        let guarded = landlock_abi().is_ok_and(|abi| abi >= 4);
        assert!(!guarded || told.of("answers").contains("EACCES"), "the race was never won");
        told.assert_nobody_came();
    }
}
