"""Tries what reaches past a sandbox without namespaces; prints a name and what came of it for each act.

usage: probe.py OUTSIDE PID PORT SHARED ABSTRACT TERMINAL: a folder of the same user that holds `file`, `link-me` and
`local` (a listening socket), a process of that user, a TCP port on 127.0.0.1 that somebody listens on, the names of a
piece of that user's shared memory and of an abstract socket that listens, and a terminal of that user. Every act is
harmless or undone."""
import ctypes, errno, os, resource, socket, struct, sys

OUTSIDE, PID, PORT, SHARED = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
ABSTRACT, TERMINAL = sys.argv[5], sys.argv[6]
FILE = OUTSIDE + "/file"
libc = ctypes.CDLL(None, use_errno=True)


def act(name):
    def run(function):
        try:
            answer = function()
            print(name, "reached" if answer in (None, True) else "held", flush=True)
        except OSError as error:
            print(name, "held", flush=True)
    return run


def call(*args):
    if libc.syscall(*args) == -1:
        raise OSError(ctypes.get_errno(), "refused")


def unchanged(function):
    """Tells whether a call changed what is known of the outside file; puts it back."""
    before = os.stat(FILE)
    try:
        function()
    finally:
        after = os.stat(FILE)
        changed = (before.st_mode, before.st_mtime_ns, before.st_size) != (after.st_mode, after.st_mtime_ns, after.st_size)
        if changed:
            os.chmod(FILE, before.st_mode & 0o7777)
            os.utime(FILE, ns=(before.st_atime_ns, before.st_mtime_ns))
    return changed


def through_path_descriptor(function):
    fd = os.open(FILE, os.O_PATH)
    try:
        return unchanged(lambda: function("/proc/self/fd/%d" % fd))
    finally:
        os.close(fd)


@act("read")
def _(): open(FILE).read()
@act("list")
def _(): os.listdir(OUTSIDE)
@act("write")
def _(): open(FILE, "a").close()
@act("create")
def _(): os.close(os.open(OUTSIDE + "/made", os.O_CREAT | os.O_WRONLY)); os.unlink(OUTSIDE + "/made")
@act("mkdir")
def _(): os.mkdir(OUTSIDE + "/folder"); os.rmdir(OUTSIDE + "/folder")
@act("truncate")
def _(): os.truncate(FILE, os.stat(FILE).st_size)
@act("open-and-truncate")
def _(): os.close(os.open(OUTSIDE + "/empty", os.O_RDONLY | os.O_TRUNC))
@act("unlink")
def _(): os.rename(OUTSIDE + "/link-me", OUTSIDE + "/renamed"); os.rename(OUTSIDE + "/renamed", OUTSIDE + "/link-me")
@act("link-in")
def _(): os.link(OUTSIDE + "/link-me", "linked"); os.unlink("linked")
@act("execute")
def _(): return os.spawnv(os.P_WAIT, OUTSIDE + "/program", ["program"]) == 0
@act("chmod")
def _(): return unchanged(lambda: os.chmod(FILE, 0o604))
@act("chmod-through-descriptor")
def _(): return through_path_descriptor(lambda path: os.chmod(path, 0o604))
@act("utime")
def _(): return unchanged(lambda: os.utime(FILE, (1, 1)))
@act("utime-through-descriptor")
def _(): return through_path_descriptor(lambda path: os.utime(path, (1, 1)))
@act("chown")
def _():
    import time
    # To whom it belongs already: what a change of owner changes in any case is the time of the last change, which the
    # kernel takes from a clock of its own, some milliseconds to the tick.
    time.sleep(0.05)
    before = os.stat(FILE).st_ctime_ns
    os.chown(FILE, -1, os.stat(FILE).st_gid)
    return os.stat(FILE).st_ctime_ns != before
@act("truncate-by-openat2")
def _():
    how = struct.pack("QQQ", os.O_RDONLY | os.O_TRUNC, 0, 0)
    call(437, -100, (OUTSIDE + "/empty").encode(), how, len(how))
@act("setxattr")
def _():
    try: os.setxattr(FILE, "user.test", b"1")
    except OSError: return False
    with open(FILE): pass
    return os.getxattr(FILE, "user.test") == b"1"
@act("watch")
def _():
    fd = libc.inotify_init1(0)
    if fd < 0: raise OSError(ctypes.get_errno(), "refused")
    if libc.inotify_add_watch(fd, OUTSIDE.encode(), 0x100) < 0: raise OSError(ctypes.get_errno(), "refused")
@act("signal")
def _(): os.kill(PID, 0)
@act("signal-by-descriptor")
def _():
    import signal
    signal.pidfd_send_signal(os.pidfd_open(PID), 0)
@act("limits-of-others")
def _(): resource.prlimit(PID, resource.RLIMIT_CORE)
@act("priority-of-others")
def _(): os.setpriority(os.PRIO_PROCESS, PID, os.getpriority(os.PRIO_PROCESS, PID))
@act("priority-of-user")
def _():
    # Changes nothing: the number is the one that all have.
    os.setpriority(os.PRIO_USER, 0, os.getpriority(os.PRIO_USER, 0))
@act("affinity-of-others")
def _(): os.sched_setaffinity(PID, os.sched_getaffinity(PID))
@act("scheduler-of-others")
def _(): os.sched_setscheduler(PID, os.sched_getscheduler(PID), os.sched_param(0))
@act("io-priority-of-others")
def _(): call(251 if os.uname().machine == "x86_64" else 30, 1, PID, 0)
@act("environment-of-others")
def _(): open("/proc/%d/environ" % PID, "rb").read()
@act("memory-of-others")
def _(): open("/proc/%d/mem" % PID, "rb").close()
@act("list-processes")
def _(): os.listdir("/proc")
@act("connections-of-the-host")
def _(): open("/proc/self/net/tcp").read()
@act("local-socket")
def _(): socket.socket(socket.AF_UNIX).connect(OUTSIDE + "/local")
@act("abstract-socket")
def _(): socket.socket(socket.AF_UNIX).connect("\0" + ABSTRACT)
@act("terminal")
def _(): os.close(os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY))
@act("owner-of-signals")
def _():
    import fcntl
    fcntl.fcntl(os.pipe()[0], fcntl.F_SETOWN, PID)
@act("tcp")
def _(): socket.create_connection(("127.0.0.1", PORT), 2).close()
@act("fast-open")
def _(): socket.socket().sendto(b"x", 0x20000000, ("127.0.0.1", PORT))
@act("multipath-tcp")
def _(): socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).connect(("127.0.0.1", PORT))
@act("listen-without-bind")
def _(): socket.socket().listen()
@act("udp")
def _(): socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9))
@act("ping")
def _(): socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1)
@act("shared-memory-of-others")
def _(): open("/dev/shm/" + SHARED).read()
@act("shared-memory-by-name")
def _():
    from multiprocessing import shared_memory
    memory = shared_memory.SharedMemory(name=SHARED)
    memory.close()
@act("user-namespace")
def _():
    if libc.unshare(0x10000000): raise OSError(ctypes.get_errno(), "refused")
@act("shared-memory-of-old")
def _():
    number = libc.shmget(0, 4096, 0o1600)
    if number < 0: raise OSError(ctypes.get_errno(), "refused")
    libc.shmctl(number, 0, None)
print("done")
