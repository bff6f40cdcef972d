"""Packs a built program into a bundle for clients that install such: python mcpb.py PROGRAM FOLDER

The bundle is a zip file with the manifest and the program. Prints its path and its SHA-256, which `server.json` wants.
Needs nothing but Python.
"""

import hashlib
import json
import platform
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXECUTABLE, PLAIN = 0o100755, 0o100644
# The same input gives the same bytes, whenever it is packed.
EPOCH = (1980, 1, 1, 0, 0, 0)


def add(bundle: zipfile.ZipFile, name: str, content: bytes, mode: int) -> None:
    entry = zipfile.ZipInfo(name, EPOCH)
    entry.create_system = 3
    entry.external_attr = mode << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    bundle.writestr(entry, content)


def main(program: Path, folder: Path) -> None:
    text = (HERE / "manifest.json").read_bytes()
    manifest = json.loads(text)
    machine = f"{platform.system().lower()}-{platform.machine()}"
    path = folder / f"{manifest['name']}-{manifest['version']}-{machine}.mcpb"
    with zipfile.ZipFile(path, "w") as bundle:
        add(bundle, "manifest.json", text, PLAIN)
        add(bundle, "LICENSE", (HERE.parent / "LICENSE").read_bytes(), PLAIN)
        add(bundle, manifest["server"]["entry_point"], program.read_bytes(), EXECUTABLE)
    print(path, hashlib.sha256(path.read_bytes()).hexdigest())


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
