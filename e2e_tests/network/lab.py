#!/usr/bin/env python3
"""A machine with a network, made of namespaces, in which a script is run in a sandbox.

    lab.py SCRIPT PYTHON-VERSION COMMAND ...      COMMAND gets the script's path as its last argument

Two network namespaces: the machine's, where this program, the sandbox's server and services of the machine are; and the
world's, which answers at every address (also at those that no script may reach), echoes on port 7000, resolves names
on port 53, and swallows connections on port 7004. Prints the script's output, then a line `lab: {...}` with what services of
the machine have seen. Controls run first: every address that a test expects to be refused is reached from here.
"""
import contextlib, json, os, socket, struct, subprocess, sys, tempfile, threading, time

WORLD = "198.51.100.2"
MACHINE = "198.51.100.1"
MACHINE_V6 = "2001:db8:1::1"
NAMES = {"world.test": ("93.184.216.34", "2606:2800::1"), "four.test": ("93.184.216.34", None),
         "rebound.test": ("169.254.169.254", None), "local.test": ("127.0.0.1", None), "long.test": ("93.184.216.34", None)}
REFUSED = ["169.254.169.254", "169.254.170.2", "100.100.100.200", "fd00:ec2::254", "::ffff:169.254.169.254"]


def run(*words):
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)


# ------------------------------------------------------------------ the world
def answer(question):
    """A reply to a question for an address."""
    at, labels = 12, []
    while question[at]:
        labels.append(question[at + 1:at + 1 + question[at]].decode().lower())
        at += question[at] + 1
    kind = struct.unpack("!H", question[at + 1:at + 3])[0]
    v4, v6 = NAMES.get(".".join(labels[-2:]), (None, None))
    data = socket.inet_aton(v4) if kind == 1 and v4 else socket.inet_pton(socket.AF_INET6, v6) if kind == 28 and v6 else None
    head = question[:2] + struct.pack("!HHHHH", 0x8180 if v4 else 0x8183, 1, 1 if data else 0, 0, 0)
    body = question[12:at + 5]
    return head + body + (struct.pack("!HHHIH", 0xC00C, kind, 1, 1, len(data)) + data if data else b"")


def serve_names():
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind((WORLD, 53))
    def datagrams():
        while True:
            question, asker = udp.recvfrom(4096)
            reply = answer(question)
            if b"\x04long" in question:       # cut short: to be asked again by TCP
                reply = reply[:2] + struct.pack("!H", 0x8380) + question[4:6] + bytes(6) + question[12:]
            udp.sendto(reply, asker)
    threading.Thread(target=datagrams, daemon=True).start()
    tcp = socket.create_server((WORLD, 53))
    def conversation(stream):
        with stream:
            while head := stream.recv(2):
                reply = answer(stream.recv(struct.unpack("!H", head)[0]))
                stream.sendall(struct.pack("!H", len(reply)) + reply)
    serve(tcp, conversation)


def echo(stream):
    with stream, contextlib.suppress(OSError):
        stream.sendall(b"hello\n")
        while data := stream.recv(1 << 16):
            stream.sendall(data)


def serve(listener, handle):
    def loop():
        while True:
            stream, _ = listener.accept()
            threading.Thread(target=handle, args=(stream,), daemon=True).start()
    threading.Thread(target=loop, daemon=True).start()


def world():
    sys.stdin.read(1)      # the machine has made the link
    for words in (["lo", "up"], ["veth-world", "up"]):
        run("ip", "link", "set", *words)
    run("ip", "address", "add", f"{WORLD}/24", "dev", "veth-world")
    run("ip", "-6", "address", "add", "2001:db8:1::2/64", "dev", "veth-world", "nodad")
    run("ip", "route", "add", "local", "0.0.0.0/0", "dev", "lo")
    run("ip", "-6", "route", "add", "local", "::/0", "dev", "lo")
    run("ip", "route", "add", f"{MACHINE}/32", "dev", "veth-world", "table", "local")
    run("ip", "-6", "route", "add", f"{MACHINE_V6}/128", "dev", "veth-world", "table", "local")
    serve_names()
    serve(socket.create_server(("::", 7000), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1000), echo)
    full = socket.create_server((WORLD, 7004), backlog=0)
    keep = [full] + [socket.socket() for _ in range(2)]
    for stream in keep[1:]:
        stream.setblocking(False)
        stream.connect_ex((WORLD, 7004))
    print("ready", flush=True)
    sys.stdin.read()


# ------------------------------------------------------------------ the machine
def make_world():
    child = subprocess.Popen(["unshare", "-n", sys.executable, __file__, "--world"], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
    while os.readlink(f"/proc/{child.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
        time.sleep(0.001)
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "veth-lab", "type", "veth", "peer", "name", "veth-world", "netns", str(child.pid))
    run("ip", "link", "set", "veth-lab", "up")
    run("ip", "address", "add", f"{MACHINE}/24", "dev", "veth-lab")
    run("ip", "-6", "address", "add", f"{MACHINE_V6}/64", "dev", "veth-lab", "nodad")
    child.stdin.write("x")
    child.stdin.flush()
    run("ip", "route", "add", "default", "via", WORLD)
    run("ip", "-6", "route", "add", "default", "via", "2001:db8:1::2")
    assert child.stdout.readline() == "ready\n", "the world came up"
    return child


def services(seen):
    """Services of the machine; each notes by its name who has come."""
    def noting(name):
        def handle(stream):
            seen[name] = seen.get(name, 0) + 1
            with stream:
                stream.sendall(b"secret\n")
        return handle
    for family, address in ((socket.AF_INET, ("127.0.0.1", 8000)), (socket.AF_INET, ("127.0.0.1", 8001)),
                            (socket.AF_INET, (MACHINE, 8000)), (socket.AF_INET6, ("::1", 8000)), (socket.AF_INET6, (MACHINE_V6, 8000))):
        serve(socket.create_server(address, family=family, backlog=500), noting(f"{address[0]} {address[1]}"))
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind("\0lab-service")
    abstract.listen()
    serve(abstract, noting("abstract"))


def controls(seen):
    for host in REFUSED:
        with socket.create_connection((host, 7000), timeout=5) as stream:
            assert stream.recv(6) == b"hello\n", host
    for host in ("127.0.0.1", MACHINE, "::1", MACHINE_V6):
        with socket.create_connection((host, 8000), timeout=5) as stream:
            assert stream.recv(7) == b"secret\n", host
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect("\0lab-service")
        assert stream.recv(7) == b"secret\n"
    assert socket.getaddrinfo("rebound.test", 80)[0][4][0] == "169.254.169.254"
    assert socket.getaddrinfo("long.test", 80)[0][4][0] == "93.184.216.34"
    assert len(seen) == 5, seen
    seen.clear()


def main():
    script, version, *command = sys.argv[1:]
    with tempfile.NamedTemporaryFile("w", suffix="-resolv.conf") as resolver:
        resolver.write(f"nameserver {WORLD}\noptions timeout:2 attempts:2\n")
        resolver.flush()
        os.chmod(resolver.name, 0o644)
        run("mount", "--bind", resolver.name, os.path.realpath("/etc/resolv.conf"))
        child = make_world()
        try:
            seen = {}
            services(seen)
            controls(seen)
            done = subprocess.run([*command, "--python-version", version, "run", script], stdin=subprocess.DEVNULL)
            print("lab:", json.dumps({"code": done.returncode, "seen": seen}), flush=True)
        finally:
            child.stdin.close()
            child.wait()
            run("umount", os.path.realpath("/etc/resolv.conf"))


if sys.argv[1:] == ["--world"]:
    world()
else:
    main()
