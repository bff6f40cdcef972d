# Unpacks source code and builds a wheel of it, in a sandbox that is thrown away. Everything in here but this file is
# the package's own doing: what it answers is as little to be trusted as the package itself.
#
# Usage: build.py ARCHIVE JOB, where JOB is JSON: {"step": "inspect" | "build", "subdirectory", "backend",
# "backend_path", "complete"}. Answers on standard output: one line of JSON, then the wheel where there is one.
# What the package prints goes to standard error.
import email.parser, importlib, json, os, sys, tarfile, zipfile



def unpack(archive, work):
    source = os.path.join(work, "source")
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(source)
    else:
        with tarfile.open(archive) as opened:
            if hasattr(tarfile, "fully_trusted_filter"):
                opened.extractall(source, filter="fully_trusted")
            else:
                opened.extractall(source)
    found = os.listdir(source)
    return os.path.join(source, found[0]) if len(found) == 1 else source


def answer(out, head, body=b""):
    with os.fdopen(out, "wb") as stream:
        stream.write(json.dumps(head).encode() + b"\n")
        stream.write(body)
    # Without the package's own exit handlers and threads.
    sys.stderr.flush()
    os._exit(0)


def inspect(out):
    text = None
    if os.path.exists("pyproject.toml"):
        with open("pyproject.toml", encoding="utf-8", errors="replace") as file:
            text = file.read(1 << 20)
    known = text is not None or os.path.exists("setup.py")
    answer(out, {"pyproject": text, "known": known})


def backend(job):
    sys.path[:0] = [os.path.abspath(path) for path in job["backend_path"]]
    module, _, attribute = job["backend"].partition(":")
    found = importlib.import_module(module)
    for name in filter(None, attribute.split(".")):
        found = getattr(found, name)
    return found


def described(path):
    with zipfile.ZipFile(path) as wheel:
        names = [name for name in wheel.namelist() if name.count("/") == 1 and name.endswith(".dist-info/METADATA")]
        text = wheel.read(names[0]).decode("utf-8", "replace")
    fields = email.parser.HeaderParser().parsestr(text)
    every = lambda name: [str(value) for value in fields.get_all(name) or []]
    return {
        "name": str(fields["Name"]),
        "version": str(fields["Version"]),
        "requires": every("Requires-Dist"),
        "extras": every("Provides-Extra"),
        "python": str(fields["Requires-Python"] or ""),
    }


def build(out, work, job):
    hooks = backend(job)
    more = getattr(hooks, "get_requires_for_build_wheel", lambda settings=None: [])(None)
    if more and not job["complete"]:
        answer(out, {"more": list(map(str, more))})
    target = os.path.join(work, "out")
    os.mkdir(target)
    name = hooks.build_wheel(target)
    path = os.path.join(target, os.path.basename(name))
    with open(path, "rb") as file:
        body = file.read()
    answer(out, {"file": os.path.basename(name), **described(path)}, body)


def main():
    archive, job = sys.argv[1], json.loads(sys.argv[2])
    out = os.dup(1)
    os.dup2(2, 1)
    work = os.getcwd()
    root = unpack(archive, work)
    os.chdir(os.path.join(root, job["subdirectory"] or "."))
    sys.argv = ["setup.py"]
    if job["step"] == "inspect":
        inspect(out)
    else:
        build(out, work, job)


main()
