"""The server as an image: what it answers in ordinary containers.

    server_image.py BASE BINARY     builds profiles/Dockerfile.server on the image BASE and asks it, as several users

Every container is started as a client starts it, over standard input and output, and is gone at the end of its input.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

SCRIPT = "import os\nprint(sum(range(10)))\ntry:\n    open('/etc/shadow').read()\nexcept OSError as e:\n    print(e.errno)"

CONTAINERS = {
    "an ordinary user without capabilities": ["--cap-drop", "ALL"],
    "an ordinary user": [],
    "root": ["--user", "0:0"],
}


def build(base: str, binary: str) -> str:
    name = f"{base}-server"
    profiles = pathlib.Path(__file__).parents[2] / "profiles"
    with tempfile.TemporaryDirectory() as context:
        shutil.copy(binary, f"{context}/mcp-python-exec-sandbox")
        command = ["docker", "build", "--quiet", "--file", str(profiles / "Dockerfile.server")]
        subprocess.run([*command, "--build-arg", f"BASE={base}", "--tag", name, context], check=True, stdout=subprocess.DEVNULL)
    return name


def answers(image: str, options: list[str]) -> dict:
    """The structured result of one script, asked for over standard input and output."""
    command = ["docker", "run", "--rm", "--interactive", *options, image, "--no-warm-cache", "--pool-size", "0"]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(number: int, method: str, params: dict) -> dict:
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        server.stdin.write(json.dumps(message) + "\n")
        server.stdin.flush()
        for line in server.stdout:
            reply = json.loads(line)
            if reply.get("id") == number:
                return reply["result"]
        raise SystemExit(f"{command} ended without an answer to {method}")

    client = {"name": "test", "version": "1"}
    ask(1, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
    server.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
    result = ask(2, "tools/call", {"name": "execute_python", "arguments": {"script": SCRIPT}})
    server.stdin.close()
    code = server.wait(timeout=20)
    assert code == 0, f"the container ended with {code}"
    return result["structuredContent"]


def main() -> None:
    base, binary = sys.argv[1:]
    image = build(base, binary)
    for who, options in CONTAINERS.items():
        result = answers(image, options)
        assert result["stdout"] in ("45\n13\n", "45\n2\n"), result
        assert result["exit_code"] == 0 and result["tier"] == "confined", result
        print(f"test the server in a container as {who} ... ok")
    print(f"{len(CONTAINERS)} passed, 0 failed")


main()
