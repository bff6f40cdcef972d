"""The sandbox's main process: it speaks with the server and keeps one worker, in which the cells run.

It never runs a line of the user's: when a cell takes the worker with it, this process tells how it ended and
starts another one in the same folders. Frames are four bytes of length, little-endian, and a JSON object.
"""

import fcntl
import json
import os
import select
import signal
import struct
import sys
import time

CHANNEL = 3
CHUNK = 1 << 16
# Descriptors of the driver stay out of the way of the numbers that programs count with.
HIGH = 200
# The server reads no longer lines from its client than a quarter of this.
LARGEST_REQUEST = 1 << 26
# Seconds between two lines that are told while a cell runs, and bytes among which the last one is looked for.
LINE_GAP = 0.5
RECENT = 4096
# Seconds that shares of memory are looked up for.
EXACT = 0.3


def encode(message):
    body = json.dumps(message).encode()
    return struct.pack("<I", len(body)) + body


class Frames:
    """Takes bytes as they come, gives whole frames."""

    def __init__(self, limit):
        self.limit = limit
        self.bytes = bytearray()

    def feed(self, data):
        self.bytes += data

    def take(self):
        if len(self.bytes) < 4:
            return None
        (size,) = struct.unpack_from("<I", self.bytes)
        if size > self.limit:
            raise ValueError("a frame of %d bytes" % size)
        if len(self.bytes) < 4 + size:
            return None
        body = bytes(self.bytes[4 : 4 + size])
        del self.bytes[: 4 + size]
        return json.loads(body)


class Stream:
    """What the worker and its children print to one descriptor: the first bytes of it, and how many there were."""

    def __init__(self, descriptor):
        self.descriptor = descriptor
        self.kept = bytearray()
        self.total = 0
        # The end of what came since a line was told.
        self.recent = b""

    def read(self, limit):
        """Reads what is there, at most two pipes full. False at the end of the stream."""
        for _ in range(2):
            try:
                data = os.read(self.descriptor, CHUNK)
            except BlockingIOError:
                return True
            if not data:
                return False
            self.total += len(data)
            self.kept += data[: max(0, limit - len(self.kept))]
            self.recent = (self.recent + data[-RECENT:])[-RECENT:]
        return True

    def has_line(self):
        return b"\n" in self.recent or b"\r" in self.recent

    def last_line(self):
        """The last complete line that was not told yet; progress bars end theirs with a carriage return."""
        lines = self.recent.replace(b"\r", b"\n").split(b"\n")
        self.recent = lines.pop()
        whole = [line for line in lines if line.strip()]
        return whole[-1].decode("utf-8", "replace")[:200] if whole else None

    def take(self):
        self.recent = b""
        taken = {"text": self.kept.decode("utf-8", "replace"), "total": self.total}
        self.kept, self.total = bytearray(), 0
        return taken


def pipe():
    """A pipe whose both ends have high numbers."""
    ends = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, HIGH) for end in ends]
    for end in ends:
        os.close(end)
    return high


class Supervisor:
    def __init__(self, setup, work, make_files):
        self.setup = setup
        root = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.root_folder = fcntl.fcntl(root, fcntl.F_DUPFD_CLOEXEC, HIGH)
        os.close(root)
        self.files = make_files(self.root_folder)
        # What a new worker calls; returns never.
        self.work = work
        self.from_server = Frames(LARGEST_REQUEST)
        self.worker = None
        self.current = None
        self.lost = None
        self.root = None
        # When the next line of the cell that runs may be told.
        self.next_line = None
        self.cells = setup["cells"]
        self.wake, wake_end = pipe()
        for end in (self.wake, wake_end):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)

    def send(self, message):
        data = memoryview(encode(message))
        while data:
            data = data[os.write(CHANNEL, data) :]

    # -- the worker

    def start(self):
        requests, requests_end = pipe()
        replies_end, replies = pipe()
        interrupts, interrupts_end = pipe()
        streams = [pipe(), pipe()]
        pid = os.fork()
        if pid == 0:
            ours = (requests_end, replies_end, self.wake, self.root_folder, signal.set_wakeup_fd(-1))
            for end in ours + (interrupts_end, streams[0][0], streams[1][0]):
                os.close(end)
            for number, (_, end) in enumerate(streams, 1):
                os.dup2(end, number)
                os.close(end)
            os.close(CHANNEL)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self.work(self.setup, (requests, replies, interrupts), self.root, self.cells)
        for end in (requests, replies, interrupts, streams[0][1], streams[1][1]):
            os.close(end)
        self.worker = pid
        self.requests, self.replies, self.interrupts = requests_end, replies_end, interrupts_end
        self.pending = b""
        self.from_worker = Frames(self.setup["frame_limit"])
        self.out, self.err = Stream(streams[0][0]), Stream(streams[1][0])
        for end in (self.requests, self.replies, self.interrupts, self.out.descriptor, self.err.descriptor):
            os.set_blocking(end, False)

    def kill(self):
        """Ends the worker and the children that stayed in its group. The end is told by `collect`."""
        if self.worker is None:
            return
        for kill in (os.killpg, os.kill):
            try:
                kill(self.worker, signal.SIGKILL)
            except OSError:
                pass

    def collect(self):
        """Tells of a worker that has ended."""
        if self.worker is None:
            return
        if os.waitid(os.P_PID, self.worker, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return
        # As long as it is not waited for, its number is nobody else's.
        self.kill()
        _, status = os.waitpid(self.worker, 0)
        self.read_streams()
        if os.WIFSIGNALED(status):
            self.lost = {"signal": os.WTERMSIG(status)}
        else:
            self.lost = {"code": os.WEXITSTATUS(status)}
        self.worker = None
        if self.current is not None:
            self.answer({})
        for end in (self.requests, self.replies, self.interrupts, self.out.descriptor, self.err.descriptor):
            os.close(end)

    def read_streams(self):
        for stream in (self.out, self.err):
            stream.read(self.setup["output_limit"])

    def answer(self, reply):
        """The end of what is being worked on."""
        reply = dict(reply, id=self.current, stdout=self.out.take(), stderr=self.err.take())
        if self.lost is not None:
            reply["lost"], self.lost = self.lost, None
        self.current, self.next_line = None, None
        self.send(reply)

    def line_due(self):
        """Milliseconds until a line is told; None where there is nothing to tell."""
        if self.next_line is None or not (self.out.has_line() or self.err.has_line()):
            return None
        return max(0, int((self.next_line - time.monotonic()) * 1000) + 1)

    def tell_line(self):
        """What the cell that runs printed last, for people who wait."""
        if self.next_line is None or time.monotonic() < self.next_line:
            return
        for line in (self.out.last_line(), self.err.last_line()):
            if line is not None:
                self.send({"id": self.current, "line": line})
                self.next_line = time.monotonic() + LINE_GAP
                return

    # -- what the server asks

    def handle(self, request):
        op = request["op"]
        if op == "interrupt":
            if request["id"] == self.current and self.worker is not None:
                try:
                    os.write(self.interrupts, struct.pack("<Q", self.current))
                except OSError:
                    pass
                os.kill(self.worker, signal.SIGINT)
        elif op == "kill":
            if request["id"] == self.current:
                self.kill()
        elif op == "usage":
            self.send(dict(usage(), id=request["id"]))
        elif op == "files":
            self.send(dict(self.files.handle(request), id=request["id"]))
        elif self.current is None:
            self.current = request["id"]
            if op == "install":
                self.root = request["root"]
            elif op == "run":
                self.cells += 1
                self.next_line = time.monotonic() + LINE_GAP
            if self.worker is None:
                self.start()
            self.pending += encode(request)
            self.push()

    def push(self):
        try:
            self.pending = self.pending[os.write(self.requests, self.pending) :]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self.pending = b""

    def hear_server(self):
        data = os.read(CHANNEL, CHUNK)
        if not data:
            self.kill()
            os._exit(0)
        self.from_server.feed(data)
        while True:
            request = self.from_server.take()
            if request is None:
                return
            self.handle(request)

    def hear_worker(self):
        try:
            data = os.read(self.replies, CHUNK)
        except BlockingIOError:
            return True
        if not data:
            return False
        try:
            self.from_worker.feed(data)
            reply = self.from_worker.take()
            if reply is not None and self.current is not None:
                self.read_streams()
                self.answer(reply)
        except ValueError:
            # Only a cell that writes to the driver's own descriptors gets here.
            self.kill()
        return True

    # -- the loop

    def run(self):
        self.start()
        self.send({"id": 0, "python": sys.version.split()[0]})
        silent = set()
        worker = self.worker
        while True:
            if worker != self.worker:
                silent, worker = set(), self.worker
            poll = select.poll()
            poll.register(CHANNEL, select.POLLIN)
            poll.register(self.wake, select.POLLIN)
            if self.worker is not None:
                for end in {self.replies, self.out.descriptor, self.err.descriptor} - silent:
                    poll.register(end, select.POLLIN)
                if self.pending:
                    poll.register(self.requests, select.POLLOUT)
            ready = {end for end, _ in poll.poll(self.line_due())}
            if self.wake in ready:
                os.read(self.wake, CHUNK)
            if worker is not None:
                limit = self.setup["output_limit"]
                for stream in (self.out, self.err):
                    if stream.descriptor in ready and not stream.read(limit):
                        silent.add(stream.descriptor)
                if self.requests in ready:
                    self.push()
                if self.replies in ready and not self.hear_worker():
                    silent.add(self.replies)
            if self.wake in ready:
                self.collect()
            self.tell_line()
            if CHANNEL in ready:
                self.hear_server()


def memory(process, exact):
    """Bytes that are a process's own, and its share of those that several map. Where the system does not tell shares, or
    that would take too long, the bytes that are not of files."""
    if exact:
        try:
            with open("/proc/%s/smaps_rollup" % process, "rb") as file:
                for line in file:
                    if line.startswith(b"Pss:"):
                        return int(line.split()[1]) << 10
        except OSError:
            pass
    with open("/proc/%s/statm" % process) as file:
        fields = file.read().split()
    return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")


def usage():
    """Memory and number of the processes of this session; nothing where they cannot be seen."""
    used, processes, session = 0, 0, os.getsid(0)
    end = time.monotonic() + EXACT
    try:
        names = os.listdir("/proc")
    except OSError:
        return {}
    for name in names:
        if name.isdigit():
            try:
                if os.getsid(int(name)) != session:
                    continue
                used += memory(name, time.monotonic() < end)
            except OSError:
                continue
            processes += 1
    return {"memory": used, "processes": processes}
