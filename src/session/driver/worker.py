"""The worker: the process in which the user's cells run, one after the other, in one namespace."""

import __future__
import ast
import builtins
import json
import linecache
import os
import signal
import struct
import sys
import time
import traceback
import types
import warnings

COROUTINE = 0x80
FUTURE = 0
for _name in __future__.all_feature_names:
    FUTURE |= getattr(__future__, _name).compiler_flag
# Cells whose source lines are kept for tracebacks.
KEPT_CELLS = 2000


def clean(text, limit):
    """Text that every JSON reader takes, at most this many bytes."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return data.decode("utf-8")
    return data[:limit].decode("utf-8", "ignore") + "\n... [truncated, %d bytes in all]" % len(data)


def shown_name(kind):
    module = kind.__module__
    return kind.__qualname__ if module in ("builtins", "__main__") else module + "." + kind.__qualname__


def file_of(trace):
    return trace.tb_frame.f_code.co_filename


def own_frames(trace):
    """The traceback from the first frame of a cell on, without the driver's own frames at its end."""
    while trace is not None and not file_of(trace).startswith("<cell "):
        trace = trace.tb_next
    last, here = trace, trace
    while here is not None:
        if not file_of(here).startswith("<driver "):
            last = here
        here = here.tb_next
    if last is not None:
        last.tb_next = None
    return trace


def described(error, limit):
    trace = own_frames(error.__traceback__)
    try:
        lines = traceback.format_exception(type(error), error, trace)
        text = "".join(lines)
    except Exception as failure:
        text = "%s (its traceback cannot be shown: %s)" % (shown_name(type(error)), type(failure).__name__)
    if len(text) > limit:
        text = text[: limit // 2] + "\n... [lines left out]\n" + text[-limit // 2 :]
    try:
        value = str(error)
    except Exception:
        value = "<its text cannot be shown>"
    return {
        "name": clean(shown_name(type(error)), 200),
        "value": clean(value, limit // 4),
        "traceback": clean(text, 2 * limit),
    }


class Worker:
    def __init__(self, setup, pipes, cells, rich):
        self.setup = setup
        self.requests, self.replies, self.interrupts = pipes
        os.set_blocking(self.interrupts, False)
        # The request that is being worked on, and the last one that is to be interrupted.
        self.request, self.cancelled = 0, 0
        self.cells = cells
        self.flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        self.running = False
        self.process = os.getpid()
        self.loop = None
        self.rich = rich
        self.module = types.ModuleType("__main__")
        self.module.__builtins__ = builtins
        sys.modules["__main__"] = self.module
        sys.argv = [""]
        builtins.display = self.display
        signal.signal(signal.SIGINT, self.interrupted)
        # Figures are shown after the cell, so `show()` has nothing to do and nothing to warn of.
        warnings.filterwarnings("ignore", message=".*non-interactive.*cannot be shown", category=UserWarning)

    def interrupted(self, number, frame):
        """A signal of the supervisor names the request that it is for: it may come before the cell, or after it."""
        try:
            (self.cancelled,) = struct.unpack("<Q", os.read(self.interrupts, 1 << 16)[-8:])
        except (OSError, struct.error):
            # One that the cell sent itself.
            self.cancelled = self.request
        if self.running and self.cancelled == self.request:
            raise KeyboardInterrupt

    # -- frames

    def read(self, size):
        parts = []
        while size:
            data = os.read(self.requests, min(size, 1 << 20))
            if not data:
                os._exit(0)
            parts.append(data)
            size -= len(data)
        return b"".join(parts)

    def serve(self):
        while True:
            (size,) = struct.unpack("<I", self.read(4))
            request = json.loads(self.read(size))
            self.request = request["id"]
            if request["op"] == "install":
                reply = use_packages(request["root"], True)
            else:
                reply = self.run(request["code"])
                if os.getpid() != self.process:
                    leave(reply["error"])
            body = json.dumps(reply).encode()
            data = memoryview(struct.pack("<I", len(body)) + body)
            while data:
                data = data[os.write(self.replies, data) :]

    # -- one cell

    def run(self, code):
        self.cells += 1
        name = "<cell %d>" % self.cells
        lines = code.splitlines(True)
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        linecache.cache[name] = (len(code), None, lines, name)
        linecache.cache.pop("<cell %d>" % (self.cells - KEPT_CELLS), None)
        self.rich.begin(self.cells)
        started = time.monotonic()
        error = self.guarded(lambda: self.evaluate(code, name))
        later = self.guarded(self.rich.figures)
        self.flush()
        taken = int((time.monotonic() - started) * 1e6)
        return {
            "cell": self.cells,
            "results": self.rich.results,
            "error": error or later,
            "notes": self.rich.notes,
            "taken_us": taken,
        }

    def guarded(self, act):
        """Does something that can be interrupted. The error that ended it, where one did."""
        try:
            try:
                self.running = True
                if self.cancelled == self.request:
                    raise KeyboardInterrupt
                act()
            finally:
                self.running = False
        except BaseException as error:
            # An interrupt that comes while the flag is being cleared lands here too.
            self.running = False
            return described(error, self.setup["traceback_limit"])
        return None

    def evaluate(self, code, name):
        tree = compile(code, name, "exec", self.flags | ast.PyCF_ONLY_AST, True)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            silent = ends_with_semicolon(code, tree.body[-1])
            last = ast.Expression(tree.body.pop().value)
        if tree.body:
            self.execute(compile(tree, name, "exec", self.flags, True))
        if last is not None:
            value = self.execute(compile(last, name, "eval", self.flags, True))
            if value is not None and not silent:
                builtins._ = value
                self.rich.show(value)

    def execute(self, code):
        self.flags |= code.co_flags & FUTURE
        value = eval(code, self.module.__dict__)
        if code.co_flags & COROUTINE:
            return self.complete(value)
        return value

    def complete(self, coroutine):
        import asyncio

        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        task = self.loop.create_task(coroutine)
        try:
            return self.loop.run_until_complete(task)
        except (KeyboardInterrupt, SystemExit):
            if not task.done():
                task.cancel()
                try:
                    self.loop.run_until_complete(task)
                except BaseException:
                    pass
            raise

    def display(self, *objects):
        """Shows objects as the last expression of a cell is shown."""
        for shown in objects:
            self.rich.show(shown)

    def flush(self):
        for stream, number in (("stdout", 1), ("stderr", 2)):
            try:
                getattr(sys, stream).flush()
            except ValueError:
                # The cell closed it: the next one prints again.
                setattr(sys, stream, open(number, "w", encoding="utf-8", errors="backslashreplace", closefd=False))
            except Exception:
                pass
        # `exit()` closes it; `input()` has to go on telling the end of input.
        if getattr(sys.stdin, "closed", False):
            sys.stdin = open(os.devnull)


def leave(error):
    """Ends a child that the cell forked and that came to the cell's end: its answer would be taken for the next cell's."""
    if error is None:
        os._exit(0)
    if error["name"] == "SystemExit":
        value = error["value"]
        os._exit(int(value) & 255 if value.isdigit() else int(value != "None"))
    try:
        os.write(2, error["traceback"].encode())
    finally:
        os._exit(1)


def ends_with_semicolon(code, node):
    """Whether the last expression is followed by a semicolon: then its value is not shown."""
    lines = code.encode("utf-8", "replace").split(b"\n")
    rest = lines[node.end_lineno - 1][node.end_col_offset :] if node.end_lineno <= len(lines) else b""
    return rest.lstrip().startswith(b";")


def site_packages(root):
    return os.path.join(root, "lib", "python%d.%d" % sys.version_info[:2], "site-packages")


def installed(root):
    """Distributions below an environment: name to version and file list."""
    from importlib import metadata

    found = {}
    for distribution in metadata.distributions(path=[site_packages(root)]):
        name = distribution.metadata["Name"]
        if name:
            found[name.lower().replace("_", "-")] = distribution
    return found


def loaded_modules(distribution):
    tops = set()
    for file in distribution.files or ():
        top = file.parts[0]
        tops.add(top[:-3] if top.endswith(".py") else top)
    return [top for top in tops if top in sys.modules]


def use_packages(root, report):
    """Makes the packages of an environment importable, in the place of those of the one before."""
    import importlib
    import site

    before = os.environ.get("VIRTUAL_ENV", "")
    reply = {"conflicts": [], "installed": []}
    if report:
        old, new = installed(before) if before else {}, installed(root)
        for name, distribution in sorted(new.items()):
            known = old.get(name)
            if known is None or known.version != distribution.version:
                reply["installed"].append([clean(name, 200), clean(distribution.version, 200)])
            if known is not None and known.version != distribution.version and loaded_modules(known):
                versions = [clean(version, 200) for version in (known.version, distribution.version)]
                reply["conflicts"].append([clean(name, 200)] + versions)
    if before:
        sys.path[:] = [entry for entry in sys.path if not entry.startswith(os.path.join(before, ""))]
    site.addsitedir(site_packages(root))
    importlib.invalidate_caches()
    binaries = os.path.join(root, "bin")
    path = os.environ.get("PATH", "").split(os.pathsep)
    os.environ["PATH"] = os.pathsep.join([binaries] + [entry for entry in path if entry != os.path.join(before, "bin")])
    os.environ["VIRTUAL_ENV"] = root
    sys.executable = os.path.join(binaries, "python")
    return reply


def main(setup, pipes, root, cells, make_rich):
    """Never returns."""
    try:
        os.setpgid(0, 0)
        if root is not None:
            use_packages(root, False)
        Worker(setup, pipes, cells, make_rich(setup, clean)).serve()
    except BaseException:
        traceback.print_exc()
    os._exit(1)
