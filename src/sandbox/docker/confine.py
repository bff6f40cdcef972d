"""What the container's first process adds to the engine's own layers.

Landlock: the program may read the image but no file of the kernel's device tree, and write only where it has folders of its
own, so that no file under /proc or /dev opens for writing; abstract sockets and signals stop at its border. Of /proc it
reads its own process and figures that programs choose a strategy by: what an engine leaves open of the rest tells of the
whole machine. And the first process closes its own files under /proc to everyone else.
"""
import os

# include/uapi/linux/landlock.h: rights by bit, with the ABI from which a kernel knows them.
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = (1 << bit for bit in range(4))
READ = EXECUTE | READ_FILE | READ_DIR
ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | 1 << 14 | 1 << 15
RIGHTS = ((1, (1 << 13) - 1), (2, 1 << 13), (3, 1 << 14), (5, 1 << 15))
SCOPES = ((6, 3),)
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
PR_SET_DUMPABLE = 4
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "pts", "shm")
PROC = ("cpuinfo", "meminfo", "stat", "uptime", "loadavg", "filesystems", "version", "vmstat", "swaps", "diskstats", "partitions",
        "devices", "sys/kernel/osrelease", "sys/kernel/ostype", "sys/kernel/version", "sys/kernel/pid_max",
        "sys/kernel/cap_last_cap", "sys/kernel/ngroups_max", "sys/vm/overcommit_memory", "sys/vm/max_map_count",
        "sys/fs/pipe-max-size")


def known(table, abi):
    return sum(bits for since, bits in table if since <= abi)


class Landlock:
    """A ruleset that is ready to be put on; without a kernel that has it, one that does nothing and says why."""

    def __init__(self, writable, whole_proc):
        self.ruleset, self.library, self.abi, self.missing = None, None, 0, ""
        try:
            import ctypes

            self.c, self.library = ctypes, ctypes.CDLL(None, use_errno=True)
            self.abi = self.call(CREATE_RULESET, None, 0, 1)
        except (ImportError, OSError) as error:
            self.missing = str(error)
            return
        self.handled = known(RIGHTS, self.abi)
        fields = [self.handled, 0, known(SCOPES, self.abi)]
        fields = fields[: 1 if self.abi < 4 else 2 if self.abi < 6 else 3]
        attributes = b"".join(field.to_bytes(8, "little") for field in fields)
        self.ruleset = self.call(CREATE_RULESET, attributes, len(attributes), 0)
        # A rule names files that exist: processes to come have none. Code in a long-lived sandbox is such a process.
        self.closed = ("sys", "dev") if whole_proc else ("sys", "dev", "proc")
        for name in os.listdir("/"):
            if name not in self.closed:
                self.allow("/" + name, READ)
        for name in PROC:
            self.allow("/proc/" + name, READ)
        self.allow("/", READ_DIR)
        for path in ["/dev/" + name for name in DEVICES] + writable:
            self.allow(path, self.handled)

    def call(self, number, *args):
        c = self.c
        whole = [c.c_long(arg) if isinstance(arg, int) else arg for arg in args]
        result = self.library.syscall(c.c_long(number), *whole)
        if result < 0:
            raise OSError(c.get_errno(), os.strerror(c.get_errno()))
        return result

    def allow(self, path, rights):
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return
        if not os.path.isdir(path):
            rights &= ON_FILES
        rule = (rights & self.handled).to_bytes(8, "little") + place.to_bytes(4, "little")
        self.call(ADD_RULE, self.ruleset, 1, rule, 0)
        os.close(place)

    def open_process(self, state):
        """Whether others of this user may open this process; what it executes may be opened anyway."""
        if self.library is not None:
            self.library.prctl(PR_SET_DUMPABLE, state, 0, 0, 0)

    def restrict(self):
        if self.ruleset is not None:
            self.allow("/proc/self/", READ)
            self.call(RESTRICT_SELF, self.ruleset, 0)
