"""A package index on loopback whose packages are made from a description. Prints its port, then serves until its input ends.

Usage: index.py FOLDER, where FOLDER/description is JSON:
  packages: [{name, version, files, requires, requires_python, tag, at, sdist, yanked, wrong_hash, megabytes}]; files
            are paths with their text, tag is the wheel's (py3-none-any), at another server that links lead to, megabytes
            a file of zeros that takes little as long as it is packed
  password: "user:password", asked for everywhere below /simple and /files where it is set
  tls:      folder with cert.pem and key.pem
The description may be replaced while it serves.
It serves as a proxy too, to whatever address, with the same packages.
Every request is written to FOLDER/requests as a line: path, and the credentials that came with it.
"""

import base64, hashlib, html, http.server, io, json, os, ssl, sys, tarfile, threading, urllib.parse, zipfile

BACKEND = '''
import os, zipfile
def build_wheel(folder, settings=None, metadata=None):
    import package
    name = f"{package.NAME}-{package.VERSION}-py3-none-any.whl"
    info = f"{package.NAME}-{package.VERSION}.dist-info"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        for path, text in package.build().items():
            wheel.writestr(path, text)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\\nName: {package.NAME}\\nVersion: {package.VERSION}\\n" + package.REQUIRES)
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return name
'''


def metadata(package):
    requires = "".join(f"Requires-Dist: {item}\n" for item in package.get("requires", []))
    if "requires_python" in package:
        requires += f"Requires-Python: {package['requires_python']}\n"
    return f"Metadata-Version: 2.1\nName: {package['name']}\nVersion: {package['version']}\n{requires}"


def wheel(package):
    info, out = f"{package['name']}-{package['version']}.dist-info", io.BytesIO()
    tag = package.get("tag", "py3-none-any")
    with zipfile.ZipFile(out, "w") as archive:
        for path, text in package.get("files", {}).items():
            archive.writestr(path, text)
        if "megabytes" in package:
            zeros = zipfile.ZipInfo("zeros.bin")
            zeros.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(zeros, "w", force_zip64=True) as file:
                for _ in range(package["megabytes"]):
                    file.write(bytes(1 << 20))
        archive.writestr(f"{info}/METADATA", metadata(package))
        archive.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: {tag}\n")
        archive.writestr(f"{info}/RECORD", "")
    return f"{package['name']}-{package['version']}-{tag}.whl", out.getvalue()


def sdist(package):
    """Source code that brings its own build backend: `sdist` is the text of a function `build` that gives the files."""
    root, out = f"{package['name']}-{package['version']}", io.BytesIO()
    requires = "".join(f"Requires-Dist: {item}\n" for item in package.get("requires", []))
    files = {
        "pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n",
        "backend.py": BACKEND,
        "package.py": f"NAME, VERSION, REQUIRES = {package['name']!r}, {package['version']!r}, {requires!r}\n{package['sdist']}\n",
    }
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for path, text in files.items():
            entry = tarfile.TarInfo(f"{root}/{path}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return f"{root}.tar.gz", out.getvalue()


def pages(packages):
    found, links = {}, {}
    for package in packages:
        name, body = sdist(package) if "sdist" in package else wheel(package)
        digest = "0" * 64 if package.get("wrong_hash") else hashlib.sha256(body).hexdigest()
        yanked = f' data-yanked="{html.escape(package["yanked"])}"' if "yanked" in package else ""
        python = package.get("requires_python", "")
        python = python and f' data-requires-python="{html.escape(python)}"'
        link = f'<a href="{package.get("at", "")}/files/{name}#sha256={digest}"{yanked}{python}>{name}</a>'
        links.setdefault(package["name"], []).append(link)
        found[f"/files/{name}"] = body
    for name, items in links.items():
        found[f"/simple/{name}/"] = "\n".join(items).encode()
        found[f"/elsewhere/simple/{name}/"] = found[f"/simple/{name}/"]
    return found


def main():
    folder = sys.argv[1]

    def read():
        with open(os.path.join(folder, "description")) as file:
            return os.fstat(file.fileno()).st_ino, json.load(file)

    (number, description), lock = read(), threading.Lock()
    found = pages(description.get("packages", []))
    asked = description.get("password")
    expected = asked and "Basic " + base64.b64encode(asked.encode()).decode()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            nonlocal number, found
            with lock:
                if os.stat(os.path.join(folder, "description")).st_ino != number:
                    number, newer = read()
                    found = pages(newer.get("packages", []))
            given = self.headers.get("Authorization", "")
            with lock, open(os.path.join(folder, "requests"), "a") as log:
                shown = base64.b64decode(given[6:]).decode() if given.startswith("Basic ") else given
                log.write(f"{self.command} {self.path} {shown}\n")
            # As a proxy it is asked for whole addresses.
            path = urllib.parse.urlsplit(self.path).path
            body, code = found.get(path), 200
            if body is None:
                disk = os.path.join(folder, "static", path.lstrip("/"))
                if os.path.isfile(disk):
                    with open(disk, "rb") as file:
                        body = file.read()
            if expected and given != expected:
                body, code = b"", 401
            elif body is None:
                body, code = b"", 404
            self.send_response(code)
            if code == 401:
                self.send_header("WWW-Authenticate", 'Basic realm="index"')
            self.send_header("Content-Type", "text/html" if "/simple/" in path else "application/octet-stream")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if "tls" in description:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.path.join(description["tls"], "cert.pem"), os.path.join(description["tls"], "key.pem"))
        server.socket = context.wrap_socket(server.socket, server_side=True)
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


main()
