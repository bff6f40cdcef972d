# Fetches source code into the current folder: an archive, or a git repository with its history as one archive.
# Reads fetch.json; answers with one line of JSON. Nothing of what it fetches is run.
import base64, hashlib, json, os, ssl, subprocess, sys, tarfile, urllib.error, urllib.parse, urllib.request

BUNDLES = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"]


class Failed(Exception):
    network = mismatch = False


class Unreachable(Failed):
    network = True


class Mismatch(Failed):
    mismatch = True


class SameSafety(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but never from a protected connection to one that is not."""

    def redirect_request(self, request, *rest):
        new = super().redirect_request(request, *rest)
        if new is not None and request.type == "https" and new.type != "https":
            raise Failed("the server redirects to an address without TLS")
        return new


def context():
    made = ssl.create_default_context()
    # Authorities of companies often lack extensions that newer Pythons insist on, and uv does not.
    made.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    if not made.get_ca_certs() and "SSL_CERT_DIR" not in os.environ:
        for bundle in filter(os.path.exists, BUNDLES):
            made.load_verify_locations(bundle)
    return made


def proxies():
    """ALL_PROXY stands for the others, which urllib does not know; NO_PROXY it looks up by itself."""
    found = urllib.request.getproxies()
    everything = found.pop("all", None)
    if everything:
        found = {"http": everything, "https": everything} | found
    if any(address.lower().startswith("socks") for address in (found.get("http", ""), found.get("https", ""))):
        raise Failed("source code is not fetched through a SOCKS proxy; set HTTPS_PROXY to one that speaks HTTP")
    return found


def archive(job):
    url = job["url"]
    if urllib.parse.urlsplit(url).scheme not in ("https", "http"):
        raise Failed("only https addresses are fetched")
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(proxies()),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(context=context()),
        urllib.request.HTTPDefaultErrorHandler(),
        SameSafety(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    request = urllib.request.Request(url, headers={"User-Agent": "mcp-python-exec-sandbox"})
    if "FETCH_USER" in os.environ:
        pair = f"{os.environ['FETCH_USER']}:{os.environ['FETCH_PASSWORD']}".encode()
        # Unredirected: another address never gets it.
        request.add_unredirected_header("Authorization", "Basic " + base64.b64encode(pair).decode())
    digest, size = hashlib.sha256(), 0
    with opener.open(request, timeout=60) as answer, open("source", "wb") as out:
        while chunk := answer.read(1 << 16):
            size += len(chunk)
            if size > job["limit"]:
                raise Failed(f"it is larger than {job['limit'] >> 20} MB")
            digest.update(chunk)
            out.write(chunk)
    if job["sha256"] not in (None, digest.hexdigest()):
        raise Mismatch(f"hash mismatch: {job['sha256']} was promised, {digest.hexdigest()} came")
    return digest.hexdigest()


def git(*args, check=True, error=Failed):
    env = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "FETCH_"))}
    env.update(
        GIT_CONFIG_NOSYSTEM="1",
        GIT_CONFIG_GLOBAL="/dev/null",
        GIT_TERMINAL_PROMPT="0",
        GIT_ALLOW_PROTOCOL="https:http",
        GIT_LFS_SKIP_SMUDGE="1",
    )
    if "SSL_CERT_FILE" in env:
        env["GIT_SSL_CAINFO"] = env["SSL_CERT_FILE"]
    try:
        done = subprocess.run(["git", *args], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except FileNotFoundError:
        raise Failed("git is not installed in a system folder") from None
    if check and done.returncode:
        lines = done.stderr.strip().splitlines() or ["git failed"]
        raise error(lines[-1].removeprefix("fatal: "))
    return done


def repository(job):
    git("init", "--quiet", "tree")
    at = ("-C", "tree")
    everything = ["+refs/heads/*:refs/remotes/origin/*", "+HEAD:refs/remotes/origin/HEAD"]
    git(*at, "fetch", "--quiet", "--tags", "--", job["url"], *everything, error=Unreachable)
    wanted = job["reference"] or "HEAD"
    names = [f"refs/tags/{wanted}", f"refs/remotes/origin/{wanted}", wanted]
    commits = [git(*at, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", check=False).stdout.strip() for name in names]
    commit = next(filter(None, commits), None)
    if commit is None:
        git(*at, "fetch", "--quiet", "--", job["url"], wanted)
        commit = git(*at, "rev-parse", "FETCH_HEAD").stdout.strip()
    git(*at, "-c", "advice.detachedHead=false", "checkout", "--quiet", commit)
    git(*at, "submodule", "--quiet", "update", "--init", "--recursive")
    with tarfile.open("source", "w") as out:
        out.add("tree")
    return commit


def main():
    with open("fetch.json") as file:
        job = json.load(file)
    try:
        identity = repository(job) if job["git"] else archive(job)
        print(json.dumps({"identity": identity}))
    except urllib.error.HTTPError as error:
        print(json.dumps({"failed": f"the server answers {error.code} {error.reason}", "network": False}))
    except OSError as error:
        print(json.dumps({"failed": str(getattr(error, "reason", error)), "network": True}))
    except Failed as error:
        print(json.dumps({"failed": str(error), "network": error.network, "mismatch": error.mismatch}))


main()
