"""Starts a server by a command, makes one call, and looks at the answer: python one_call.py COMMAND [ARGUMENT ...]

Needs nothing but Python. Ends with status 1 and the reason where the answer is not the right one.
"""

import json
import subprocess
import sys


def main(command: list[str]) -> None:
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(number: int, method: str, params: dict) -> dict:
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        print(json.dumps(message), file=server.stdin, flush=True)
        for line in server.stdout:
            answer = json.loads(line)
            if answer.get("id") == number:
                return answer
        sys.exit(f"{command[0]} ended without an answer to {method}")

    client = {"name": "one-call", "version": "1"}
    ask(1, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
    print(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}), file=server.stdin, flush=True)
    arguments = {"script": "print(6 * 7)", "timeout_seconds": 120}
    answer = ask(2, "tools/call", {"name": "execute_python", "arguments": arguments})
    server.stdin.close()
    server.wait(timeout=30)
    fields = answer.get("result", {}).get("structuredContent", {})
    if fields.get("stdout") != "42\n" or server.returncode != 0:
        sys.exit(f"wrong answer, or status {server.returncode}: {answer}")
    print(f"42, tier {fields['tier']}, Python {fields['python']}")


if __name__ == "__main__":
    main(sys.argv[1:])
