"""The first process of a sandbox's container.

It gets frames on standard input: what to start, the files for it, and later "kill" or bytes for the program's private
channel. It sends frames on standard output: what the engine really enforced, the program's output, and how the program
ended. The end of its input is the end of everything: the kernel ends what is left in the container with its first
process, which no process inside can end or hold up. Only modules that cost nothing are imported.

A frame is one byte for its kind, four for its length with the highest first, and its content.
"""
import errno
import os
import select

import _signal

IN, OUT = 0, 1
CHUNK = 1 << 16
# Milliseconds between two looks whether an interpreter that starts has opened its script.
READER_COMES = 2
# Between two looks at the writable folders: the shortest time and the longest, in milliseconds; and the share of a
# folder that is free when it counts as full.
LOOK, LOOK_IDLE, FULL = 4, 64, 16


# Files that are shown with a result: how many, how large, and how large together.
LEFT, LEFT_FILES, LEFT_LARGEST, LEFT_BYTES = b"/work/output", 100, 8 << 20, 32 << 20


def send(kind, content):
    data = kind + len(content).to_bytes(4, "big") + content
    while data:
        data = data[os.write(OUT, data) :]


def read_exactly(size):
    parts = []
    while size:
        part = os.read(IN, min(size, CHUNK))
        if not part:
            os._exit(0)
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def receive():
    kind = read_exactly(1)
    return kind, read_exactly(int.from_bytes(read_exactly(4), "big"))


def text(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def control_group(unified, controller, separate):
    return text("/sys/fs/cgroup/" + unified) or text("/sys/fs/cgroup/" + controller + "/" + separate)


def counter(lines, name):
    for line in lines.splitlines():
        if line.startswith(name + " "):
            return int(line.split()[1])
    return 0


def enforced():
    """What this process can see of its own confinement, a fact on each line."""
    facts = ["uid %d" % os.getuid(), "read-only-root %d" % (os.statvfs("/").f_flag & 1)]
    for line in text("/proc/self/status").splitlines():
        name, _, value = line.partition(":")
        if name in ("Seccomp", "NoNewPrivs", "CapEff", "CapBnd"):
            facts.append(name + " " + value.strip())
    facts.append("memory " + control_group("memory.max", "memory", "memory.limit_in_bytes").strip())
    facts.append("processes " + control_group("pids.max", "pids", "pids.max").strip())
    interfaces = [line.split(":")[0].strip() for line in text("/proc/net/dev").splitlines()[2:]]
    facts.append("interfaces " + " ".join(interfaces))
    # 169.254.0.0/16 as the kernel writes it: on the bridge, where nobody has these addresses.
    routes = [line.split() for line in text("/proc/net/route").splitlines()[1:]]
    closed = any(fields[1] == "0000FEA9" and fields[7] == "0000FFFF" for fields in routes)
    facts.append("link-local " + ("closed" if closed else "open"))
    return "\n".join(facts).encode()


def ended_for_memory():
    """Processes that the kernel has ended for want of memory."""
    return counter(control_group("memory.events", "memory", "memory.oom_control"), "oom_kill")


def hits():
    return ended_for_memory(), counter(control_group("pids.events", "pids", "pids.events"), "max")


class Program:
    """The program, as the header names it."""

    def __init__(self, header):
        fields = iter(header.split(b"\0"))
        self.path, self.folder = next(fields), next(fields)
        self.wants_channel = next(fields) == b"channel"
        self.script = next(fields)
        lists = ([next(fields) for _ in range(int(next(fields)))] for _ in range(5))
        self.args, self.env, self.files, self.writable, self.returned = lists

    def find_in_memory(self):
        """Folders with a size of their own."""
        places = [line.split() for line in text("/proc/self/mounts").splitlines()]
        sized = [fields[1] for fields in places if fields[2] == "tmpfs" and fields[3].startswith("rw")]
        own = {os.fsdecode(folder) for folder in self.writable} | {"/dev/shm"}
        self.in_memory = [folder for folder in sized if folder in own]

    def write_files(self):
        for path in self.files:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            _, content = receive()
            with open(path, "wb") as file:
                file.write(content)
        if self.script:
            os.mkfifo(self.script, 0o644)

    def states(self):
        """Size and time of every file that is given back where it changes."""
        files = (os.path.join(at, name) for top in self.returned for at, _, names in os.walk(top) for name in names)
        found = {path: os.lstat(path) for path in files}
        return {path: (one.st_mtime_ns, one.st_size) for path, one in found.items() if one.st_mode >> 12 == 8}

    def give_back(self, before):
        for path, state in self.states().items():
            if before.get(path) != state:
                send(b"N", path)
                self.send_file(path)

    def start(self, landlock):
        null = os.open("/dev/null", os.O_RDWR)
        self.out, out = os.pipe()
        self.err, err = os.pipe()
        self.channel, theirs = None, None
        if self.wants_channel:
            import _socket

            ours, theirs = _socket.socketpair()
            self.channel, theirs = ours.detach(), theirs.detach()
            os.set_blocking(self.channel, False)
        failed, failure = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self.become({0: null, 1: out, 2: err, 3: theirs}, landlock)
            except FileNotFoundError:
                os.write(failure, b"\0")
            except OSError as error:
                os.write(failure, ("%s: %s" % (os.fsdecode(error.filename or self.path), error.strerror)).encode())
            os._exit(127)
        for descriptor in (null, out, err, theirs, failure):
            if descriptor is not None:
                os.close(descriptor)
        reason = os.read(failed, CHUNK)
        os.close(failed)
        return reason

    def become(self, descriptors, landlock):
        landlock.open_process(1)
        os.setsid()
        for number, descriptor in descriptors.items():
            if descriptor is not None:
                os.dup2(descriptor, number)
        # The interpreter ignores these two; what is ignored stays so in the program.
        for number in (_signal.SIGPIPE, _signal.SIGXFSZ, _signal.SIGINT, _signal.SIGTERM):
            _signal.signal(number, _signal.SIG_DFL)
        os.umask(0o022)
        # Where memory is short the program goes, not its supervisor.
        score = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(score, b"500")
        os.chdir(self.folder)
        landlock.restrict()
        env = dict(entry.split(b"=", 1) for entry in self.env)
        os.execve(self.path, [self.path, *self.args], env)


    def show_left(self):
        """Sends the files of the folder that is shown with the result. Nothing runs any more that could change them."""
        left, room = LEFT_FILES, LEFT_BYTES
        for at, _, names in () if os.path.islink(LEFT) else os.walk(LEFT):
            for name in sorted(names):
                path = os.path.join(at, name)
                found = os.lstat(path)
                if found.st_mode >> 12 != 8 or found.st_nlink > 1 or not left:
                    continue
                left -= 1
                send(b"L", b"%d %s" % (found.st_size, path))
                if found.st_size <= min(LEFT_LARGEST, room):
                    room -= found.st_size
                    self.send_file(path)

    def send_file(self, path):
        with open(path, "rb") as file:
            while piece := file.read(CHUNK):
                send(b"B", piece)

    def opened(self):
        """The script's pipe, once the program has opened its other end."""
        try:
            return os.open(self.script, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return None

    def deliver(self, pipe, content):
        """Lets the program go on: the real file takes over the pipe's name, and the same text goes through the pipe."""
        beside = self.script + b".new"
        with open(beside, "wb") as file:
            file.write(content)
        os.rename(beside, self.script)
        os.set_blocking(pipe, True)
        try:
            while content:
                content = content[os.write(pipe, content) :]
        except BrokenPipeError:
            # It has read enough: a syntax error, or its end.
            pass
        os.close(pipe)


class Supervisor:
    """Passes on what the program prints until it has ended."""

    def __init__(self, program, wake, ended_before):
        self.program, self.wake, self.pipe, self.ended_before = program, wake, None, ended_before
        self.kinds = {program.out: b"O", program.err: b"X"}
        self.input, self.outgoing, self.ended = b"", b"", None
        self.free, self.was_full, self.interval = None, False, LOOK
        self.poller = select.poll()
        for descriptor in (IN, wake, program.out, program.err):
            self.poller.register(descriptor, select.POLLIN)
        if program.channel is not None:
            self.kinds[program.channel] = b"C"
            self.poller.register(program.channel, select.POLLIN)

    def wait_for_reader(self):
        """Until the program waits for its script; gives whether it does."""
        while self.ended is None:
            self.pipe = self.program.opened()
            if self.pipe is not None:
                return True
            self.step(READER_COMES)
        return False

    def run(self):
        while self.ended is None:
            self.step(self.look() if self.pipe is None else None)
            # A run that has lost one of its processes ends as a whole.
            if self.ended is None and ended_for_memory() > self.ended_before:
                self.end_all()
        self.look()
        self.end_all()
        for descriptor in list(self.kinds):
            while descriptor in self.kinds:
                self.forward(descriptor)

    def look(self):
        """Whether a writable folder is full, or was: a program's last words are no proof. Gives when to look again."""
        found = [os.statvfs(folder) for folder in self.program.in_memory]
        free = [folder.f_bfree for folder in found]
        self.was_full |= any(folder.f_bfree < folder.f_blocks // FULL for folder in found)
        self.interval = LOOK if free != self.free else min(2 * self.interval, LOOK_IDLE)
        self.free = free
        return self.interval

    def step(self, patience):
        for descriptor, event in self.poller.poll(patience):
            if descriptor == self.wake:
                os.read(self.wake, CHUNK)
                self.reap(os.WNOHANG)
            elif descriptor == IN:
                self.take(os.read(IN, CHUNK))
            elif event & select.POLLOUT:
                self.push()
            elif descriptor in self.kinds:
                self.forward(descriptor)

    def forward(self, descriptor):
        try:
            data = os.read(descriptor, CHUNK)
        except OSError:
            data = b""
        kind = self.kinds[descriptor]
        if data or kind == b"C":
            send(kind, data)
        if not data:
            self.poller.unregister(descriptor)
            del self.kinds[descriptor]

    def take(self, data):
        if not data:
            os._exit(0)
        self.input += data
        while len(self.input) >= 5:
            end = 5 + int.from_bytes(self.input[1:5], "big")
            if len(self.input) < end:
                return
            kind, content, self.input = self.input[:1], self.input[5:end], self.input[end:]
            if kind == b"K":
                self.end_all()
            elif kind == b"F" and self.pipe is not None:
                # Before the first byte: whoever has not heard it knows that nothing of the script was run.
                send(b"T", b"")
                self.program.deliver(self.pipe, content)
                self.pipe = None
            elif kind == b"C" and self.program.channel in self.kinds:
                self.outgoing += content
                self.push()

    def push(self):
        try:
            self.outgoing = self.outgoing[os.write(self.program.channel, self.outgoing) :]
        except BlockingIOError:
            pass
        except OSError:
            self.outgoing = b""
        if self.program.channel in self.kinds:
            wanted = select.POLLIN | (select.POLLOUT if self.outgoing else 0)
            self.poller.modify(self.program.channel, wanted)

    def reap(self, options):
        """Collects what has ended; without options, until nobody is left."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, options)
            except ChildProcessError:
                return
            if pid == self.program.pid:
                self.ended = status, usage
            if not pid:
                return

    def end_all(self):
        try:
            os.kill(-1, _signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.reap(0)


def main():
    # They take the lowest numbers, so that nothing else is in the way of the program's.
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    _signal.set_wakeup_fd(waker)
    _signal.signal(_signal.SIGCHLD, lambda *_: None)
    for number in (_signal.SIGINT, _signal.SIGTERM):
        _signal.signal(number, _signal.SIG_IGN)
    send(b"R", enforced())
    program = Program(receive()[1])
    program.write_files()
    program.find_in_memory()
    before, states = hits(), program.states()
    landlock = Landlock([os.fsdecode(path) for path in program.writable], program.wants_channel)
    landlock.open_process(0)
    reason = program.start(landlock)
    if reason:
        send(b"E", reason.strip(b"\0"))
        os._exit(0)
    supervisor = Supervisor(program, wake, before[0])
    if program.script and not supervisor.wait_for_reader():
        send(b"E", b"the program ended before it asked for its script")
        os._exit(0)
    send(b"S", ("landlock %d %s" % (landlock.abi, landlock.missing)).encode())
    supervisor.run()
    program.give_back(states)
    program.show_left()
    status, usage = supervisor.ended
    how = "signal %d" % os.WTERMSIG(status) if os.WIFSIGNALED(status) else "exit %d" % os.WEXITSTATUS(status)
    memory, processes = (now - then for now, then in zip(hits(), before))
    cpu = int((usage.ru_utime + usage.ru_stime) * 1e6)
    numbers = cpu, usage.ru_maxrss * 1024, memory, processes, supervisor.was_full
    send(b"D", ("%s %d %d %d %d %d" % (how, *numbers)).encode())
    os._exit(0)


main()
