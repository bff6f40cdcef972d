//! Clients as they are written: each way of connecting behaves as the kernel's own.

use super::lab::{As, run};

#[test]
fn blocking_clients() {
    let script = r#"
told("v4", lambda: greeting(WORLD))
told("v6", lambda: greeting("2606:2800::1"))
told("mapped", lambda: greeting("::ffff:93.184.216.34"))
told("private", lambda: greeting("10.1.2.3"))
told("closed", lambda: greeting(WORLD, 7001))
def conversation():
    with tcp() as stream:
        stream.connect((WORLD, 7000))
        names = [stream.getpeername(), stream.getsockname()[0]]
        stream.sendall(b"x" * 100_000)
        stream.shutdown(socket.SHUT_WR)
        size = 0
        while data := stream.recv(1 << 16):
            size += len(data)
        return [size, *names]
told("conversation", conversation)
def again():
    with tcp() as stream:
        stream.connect((WORLD, 7000))
        return stream.connect((WORLD, 7000))
told("again", again)
def after_refusal():
    with tcp() as stream:
        told("first", lambda: stream.connect((WORLD, 7001)))
        stream.connect((WORLD, 7000))
        return stream.recv(5).decode()
told("after_refusal", after_refusal)
def timed_out():
    with tcp() as stream:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 300_000))
        start = time.monotonic()
        try:
            stream.connect(("198.51.100.2", 7004))
        except OSError as error:
            return [errno.errorcode[error.errno], 0.2 < time.monotonic() - start < 2]
told("timed_out", timed_out)
def interrupted():
    import signal
    class Alarm(Exception): pass
    def alarm(*_): raise Alarm
    signal.signal(signal.SIGALRM, alarm)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    start = time.monotonic()
    try:
        with tcp() as stream:
            stream.connect(("198.51.100.2", 7004))
    except Alarm:
        return time.monotonic() - start < 2
told("interrupted", interrupted)
def connect_raw(number):
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    address = struct.pack("!2s H 4s 8x", struct.pack("=H", 2), 7000, socket.inet_aton(WORLD))
    assert libc.connect(number, address, 16) == -1
    return ctypes.get_errno()
told("bad_descriptor", lambda: os.strerror(connect_raw(999)))
told("not_a_socket", lambda: os.strerror(connect_raw(0)))
"#;
    for who in [As::Caller, As::User] {
        let Some(told) = run(script, &[], who) else { continue };
        let hello = ["v4", "v6", "mapped", "private", "after_refusal"].map(|name| (name, "hello"));
        told.assert(&hello);
        told.assert(&[
            ("closed", "ECONNREFUSED"),
            ("conversation", "[100006, ('93.184.216.34', 7000), '198.51.100.1']"),
            ("again", "EISCONN"),
            ("first", "ECONNREFUSED"),
            ("timed_out", "['EINPROGRESS', True]"),
            ("interrupted", "True"),
            ("bad_descriptor", "Bad file descriptor"),
            ("not_a_socket", "Socket operation on non-socket"),
        ]);
    }
}

#[test]
fn clients_that_do_not_block() {
    let script = r#"
def begin(host, port, family=socket.AF_INET):
    stream = tcp(family)
    stream.setblocking(False)
    return stream, errno.errorcode.get(stream.connect_ex((host, port)), "0")
def finish(stream):
    _, ready, _ = select.select([], [stream], [], 5)
    return [bool(ready), errno.errorcode.get(stream.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), "0")]
def success():
    stream, first = begin(WORLD, 7000)
    after = finish(stream)
    return [first, *after, errno.errorcode.get(stream.connect_ex((WORLD, 7000)), "0"), stream.getpeername()[0]]
told("success", success)
def failure():
    stream, first = begin(WORLD, 7001)
    return [first, *finish(stream)]
told("failure", failure)
def underway():
    stream, first = begin("198.51.100.2", 7004)
    return [first, errno.errorcode.get(stream.connect_ex(("198.51.100.2", 7004)), "0")]
told("underway", underway)
def reused():
    stream, _ = begin(WORLD, 7001)
    finish(stream)
    second = errno.errorcode.get(stream.connect_ex((WORLD, 7000)), "0")
    return [second, *finish(stream)]
told("reused", reused)
def registered():
    stream, _ = begin(WORLD, 7000)
    poll = select.epoll()
    poll.register(stream, select.EPOLLOUT)
    return [event & select.EPOLLOUT for _, event in poll.poll(5)]
told("registered", registered)
told("with_timeout", lambda: greeting(WORLD, timeout=1))
def hopeless():
    start = time.monotonic()
    try:
        greeting("198.51.100.2", 7004, timeout=0.3)
    except TimeoutError:
        return time.monotonic() - start < 2
told("hopeless", hopeless)
"#;
    for who in [As::Caller, As::User] {
        let Some(told) = run(script, &[], who) else { continue };
        told.assert(&[
            ("success", "['EINPROGRESS', True, '0', 'EISCONN', '93.184.216.34']"),
            ("failure", "['EINPROGRESS', True, 'ECONNREFUSED']"),
            ("underway", "['EINPROGRESS', 'EALREADY']"),
            ("reused", "['EINPROGRESS', True, '0']"),
            ("registered", "[4]"),
            ("with_timeout", "hello"),
            ("hopeless", "True"),
        ]);
    }
}

#[test]
fn event_loops() {
    let script = r#"
import asyncio
async def greet(host, port=7000, **more):
    reader, writer = await asyncio.open_connection(host, port, **more)
    line = await reader.readline()
    writer.close()
    await writer.wait_closed()
    return line.decode().strip()
told("one", lambda: asyncio.run(greet(WORLD)))
told("by_name", lambda: asyncio.run(greet("world.test", happy_eyeballs_delay=0.25)))
async def many():
    return len([one for one in await asyncio.gather(*(greet(WORLD) for _ in range(200))) if one == "hello"])
told("many", lambda: asyncio.run(many()))
async def server():
    async def handle(reader, writer):
        writer.write(b"inside\n")
        await writer.drain()
        writer.close()
    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        return await greet(*server.sockets[0].getsockname())
told("server", lambda: asyncio.run(server()))
"#;
    let Some(told) = run(script, &[], As::Caller) else { return };
    told.assert(&[("one", "hello"), ("by_name", "hello"), ("many", "200"), ("server", "inside")]);
}

#[test]
fn threads_children_and_programs() {
    let script = r#"
def threads():
    found = []
    threads = [threading.Thread(target=lambda: found.append(greeting(WORLD))) for _ in range(50)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return [len(found), set(found)]
told("threads", threads)
def child():
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, greeting(WORLD).encode())
        os._exit(0)
    os.wait()
    return os.read(read, 10).decode()
told("child", child)
def program():
    import subprocess
    words = "import socket; print(socket.create_connection(('93.184.216.34', 7000)).recv(5).decode())"
    return subprocess.run([sys.executable, "-c", words], capture_output=True, text=True).stdout.strip()
told("program", program)
def inherited(inheritable):
    with tcp() as stream:
        stream.set_inheritable(inheritable)
        stream.connect((WORLD, 7000))
        return fcntl.fcntl(stream, fcntl.F_GETFD)
told("kept_at_exec", lambda: inherited(True))
told("closed_at_exec", lambda: inherited(False))
def options():
    with tcp() as stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        stream.settimeout(7)
        stream.connect((WORLD, 7000))
        return [stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY),
                stream.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), os.get_blocking(stream.fileno())]
told("options", options)
"#;
    let Some(told) = run(script, &[], As::Caller) else { return };
    told.assert(&[
        ("threads", "[50, {'hello'}]"),
        ("child", "hello"),
        ("program", "hello"),
        ("kept_at_exec", "0"),
        ("closed_at_exec", "1"),
        ("options", "[1, 1, False]"),
    ]);
}

/// The script's own network: servers and clients of its own, of every kind.
#[test]
fn servers_inside() {
    let script = r#"
def stream(family, address):
    server = socket.create_server(address, family=family)
    with socket.create_connection(server.getsockname()[:2], timeout=5) as client:
        server.accept()[0].sendall(b"inside")
        return client.recv(10).decode()
told("v4", lambda: stream(socket.AF_INET, ("127.0.0.1", 0)))
told("v6", lambda: stream(socket.AF_INET6, ("::1", 0)))
told("any", lambda: stream(socket.AF_INET, ("0.0.0.0", 0)))
told("backlog", lambda: tcp().listen(1))
def local(address):
    server = socket.socket(socket.AF_UNIX)
    server.bind(address)
    server.listen()
    client = socket.socket(socket.AF_UNIX)
    client.connect(address)
    return struct.unpack("iii", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1:] and \
        struct.unpack("iii", server.accept()[0].getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1] == os.getuid()
told("path", lambda: local("/tmp/server"))
told("abstract", lambda: local("\0server"))
def manager():
    import multiprocessing
    with multiprocessing.Manager() as manager:
        shared = manager.list([1])
        shared.append(2)
        return list(shared)
if __name__ == "__main__":
    told("manager", manager)
    def unserved():
        server = socket.create_server(("127.0.0.1", 0), backlog=0)
        streams = []
        for _ in range(4):
            stream = tcp()
            stream.setblocking(False)
            streams.append((stream, stream.connect_ex(server.getsockname())))
        return {errno.errorcode.get(code, 0) for _, code in streams}
    told("unserved", unserved)
    def hopeless():
        server = socket.create_server(("127.0.0.1", 0), backlog=0)
        fill = [tcp() for _ in range(3)]
        for stream in fill:
            stream.setblocking(False)
            stream.connect_ex(server.getsockname())
        for _ in range(20):
            threading.Thread(target=lambda: tcp().connect(server.getsockname()), daemon=True).start()
        return greeting(WORLD)
    told("others_go_on", hopeless)
    os._exit(0)
"#;
    for who in [As::Caller, As::User] {
        let Some(told) = run(script, &[], who) else { continue };
        told.assert(&["v4", "v6", "any"].map(|name| (name, "inside")));
        told.assert(&[
            ("backlog", "None"),
            ("path", "True"),
            ("abstract", "True"),
            ("manager", "[1, 2]"),
            ("unserved", "{'EINPROGRESS'}"),
            ("others_go_on", "hello"),
        ]);
    }
}
