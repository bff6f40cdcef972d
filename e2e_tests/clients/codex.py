"""Asks Codex's app server how its MCP servers are. Prints the names of the tools of the server that is named.

usage: codex.py CODEX SERVER
"""

import json
import subprocess
import sys
import threading

codex, wanted = sys.argv[1:]
server = subprocess.Popen(
    [codex, "app-server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
)
watchdog = threading.Timer(90, server.kill)
watchdog.start()


def send(message):
    server.stdin.write(json.dumps(message) + "\n")
    server.stdin.flush()


def answer(number):
    for line in server.stdout:
        message = json.loads(line)
        if message.get("id") == number and "method" not in message:
            assert "result" in message, message
            return message["result"]
    sys.exit(f"Codex ended without an answer to request {number}")


try:
    client = {"name": "client-matrix", "title": "client matrix", "version": "1"}
    send({"id": 1, "method": "initialize", "params": {"clientInfo": client}})
    answer(1)
    send({"method": "initialized"})
    send({"id": 2, "method": "mcpServerStatus/list", "params": {}})
    servers = {entry["name"]: entry for entry in answer(2)["data"]}
    tools = servers[wanted]["tools"]
    assert "execute_python" in tools, servers
    print(" ".join(sorted(tools)))
finally:
    watchdog.cancel()
    server.kill()
    server.wait()
