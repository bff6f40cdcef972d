"""One row of the matrix, from what a client and the server said to each other: how the client opened the conversation,
and whether its list and its call were answered. Fails where nothing was, or where a list was asked for and not answered.

usage: matrix.py FOLDER NAME VERSION HTTP
"""

import json
import pathlib
import sys

folder, name, version, http = pathlib.Path(sys.argv[1]), *sys.argv[2:]


def messages(file):
    return [json.loads(line) for line in (folder / file).read_text().splitlines() if line.strip()]


asked = [message for message in messages("asked") if "method" in message and "id" in message]
good = {str(message["id"]) for message in messages("answered") if "result" in message}
first = next(message for message in asked if str(message["id"]) in good)
params = first.get("params") or {}
meta = params.get("_meta") or {}
spoken = params.get("protocolVersion") or meta.get("io.modelcontextprotocol/protocolVersion", "?")


def answered(method):
    return any(message["method"] == method and str(message["id"]) in good for message in asked)


listed = answered("tools/list")
if not listed and any(message["method"] == "tools/list" for message in asked):
    sys.exit(f"{name} asked for the tools and got none; see {folder}")
calls = "yes" if answered("tools/call") else "not without a model"
lists = "yes" if listed else "not without a model"
print(f"| {name} {version} | `{first['method']}` {spoken} | {lists} | {calls} | {http} |")
