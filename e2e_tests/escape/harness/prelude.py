# What every probe can use. `attempt` prints one line for each attempt; the harness judges them.
import ctypes, errno, fcntl, json, mmap, os, resource, signal, socket, stat, struct, sys, threading, time

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


# A writable folder, wherever the tier has it.
SCRATCH = os.environ.get("TMPDIR", "/tmp")


def syscall(name, *args):
    """A system call by name or number. Bytes and ctypes objects are passed by address."""
    number = NR[name] if isinstance(name, str) else name
    plain = []
    for arg in args:
        if isinstance(arg, int):
            arg = ctypes.c_ulong(arg & 0xFFFFFFFFFFFFFFFF)
        elif isinstance(arg, (ctypes.Structure, ctypes.Array, ctypes._SimpleCData)):
            arg = ctypes.byref(arg)
        plain.append(arg)
    ctypes.set_errno(0)
    result = _libc.syscall(ctypes.c_long(number), *plain)
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)
    return result


def outcome_of(act):
    try:
        result = act()
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    return result if isinstance(result, str) else "ok"


def attempt(label, act):
    # What nobody expects anything of is not tried.
    if label not in SKIP:
        print(f"@{label}\t{outcome_of(act)}", flush=True)


def in_child(act):
    """The same act in a process of its own: for what ends the process or changes it."""
    def tried():
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write, outcome_of(act).encode())
            os._exit(0)
        os.close(write)
        told = b""
        while chunk := os.read(read, 4096):
            told += chunk
        os.close(read)
        status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status):
            return "signal " + signal.Signals(os.WTERMSIG(status)).name
        return told.decode()
    return tried


def opened(path, flags=os.O_RDONLY):
    """Opens and closes a file; nothing is read or written."""
    def tried():
        os.close(os.open(path, flags))
    return tried


def connected(family, address, kind=socket.SOCK_STREAM):
    """Connects and hears a greeting."""
    def tried():
        with socket.socket(family, kind) as client:
            client.settimeout(5)
            client.connect(address)
    return tried


NEW = {
    "time": 0x80, "mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000,
    "ipc": 0x8000000, "user": 0x10000000, "pid": 0x20000000, "net": 0x40000000,
}


# Whether this is a control in namespaces of its own.
PRIVATE = False


def enter_private_namespaces():
    """Root of namespaces of its own. Exits with 77 where the machine refuses them."""
    global PRIVATE
    PRIVATE = True
    uid, gid = os.getuid(), os.getgid()
    flags = sum(flag for name, flag in NEW.items() if name != "time")
    try:
        syscall("unshare", flags)
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    except OSError as error:
        print(f"namespaces of its own: {error}", file=sys.stderr)
        os._exit(77)
    child = os.fork()
    if child:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF)
    syscall("mount", b"none", b"/", None, 0x44000, None)
    syscall("mount", b"proc", b"/proc", b"proc", 0, None)
