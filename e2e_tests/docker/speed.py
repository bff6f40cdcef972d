"""How long a hello takes over MCP in a container, beside plain `docker run` of the same image, in turns.

    python3 speed.py BINARY [IMAGE] [TURNS]

Prints medians in milliseconds: a call that finds a waiting container, a call without a pool, and `docker run`.
"""
import json
import statistics
import subprocess
import sys
import tempfile
import time

HELLO = "print('Hello, World!')"


class Server:
    def __init__(self, binary, *flags):
        command = [binary, "--sandbox-backend", "docker", "--no-warm-cache", *flags]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.number = 0
        client = {"name": "speed", "version": "0"}
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        self.number += 1
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        while line := self.process.stdout.readline():
            reply = json.loads(line)
            if reply.get("id") == self.number:
                return reply["result"]
        raise SystemExit("the server ended")

    def hello(self):
        start = time.perf_counter()
        result = self.ask("tools/call", {"name": "execute_python", "arguments": {"script": HELLO}})
        took = time.perf_counter() - start
        assert "Hello, World!" in json.dumps(result), result
        return took * 1000

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def by_hand(image):
    start = time.perf_counter()
    said = subprocess.run(["docker", "run", "--rm", image, "/usr/local/bin/python3", "-c", HELLO], capture_output=True)
    assert said.stdout == b"Hello, World!\n", said
    return (time.perf_counter() - start) * 1000


def main(binary, image="mcp-python-exec-sandbox:test", turns="40"):
    data = tempfile.mkdtemp()
    flags = ["--docker-image", image, "--data-dir", data]
    cold, pooled = Server(binary, "--pool-size", "0", *flags), Server(binary, "--pool-size", "1", *flags)
    for server in (cold, pooled):
        server.hello()
    took = {"waiting container": [], "no pool": [], "docker run": []}
    for _ in range(int(turns)):
        took["no pool"].append(cold.hello())
        took["docker run"].append(by_hand(image))
        # The next container is made after the answer; it has to wait before it counts as a hit.
        time.sleep(1.5)
        took["waiting container"].append(pooled.hello())
        time.sleep(1.5)
    for server in (cold, pooled):
        server.close()
    for name, times in took.items():
        quarters = statistics.quantiles(times, n=10)
        print(f"{name:<18} median {statistics.median(times):7.1f}  p10 {quarters[0]:7.1f}  p90 {quarters[8]:7.1f}  n {len(times)}")
    print(f"no pool / docker run: {statistics.median(took['no pool']) / statistics.median(took['docker run']):.2f}")


main(*sys.argv[1:])
