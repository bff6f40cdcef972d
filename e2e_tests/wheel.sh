#!/usr/bin/env bash
# The wheel and the bundle, as their users get them: built from this folder, installed in fresh environments, each answering
# a call. Takes a package index; without one it prints SKIPPED and the reason. PROFILE chooses cargo's profile.
set -euo pipefail
cd "$(dirname "$0")/.."

profile=${PROFILE:-dev}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/home"

skip() {
    echo "SKIPPED wheel: $1"
    exit 0
}
python3 -m venv "$work/tools" || skip 'python3 -m venv does not work here'
"$work/tools/bin/pip" -q install --disable-pip-version-check 'maturin>=1.9,<2' uv 2>"$work/pip" ||
    skip "maturin and uv cannot be installed: $(tail -n 1 "$work/pip")"

echo '== the wheel'
"$work/tools/bin/maturin" build --quiet --profile "$profile" --locked --out "$work/dist"
wheel=$(echo "$work"/dist/*.whl)
basename "$wheel"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
case $(basename "$wheel") in
mcp_python_exec_sandbox-"$version"-py3-none-*) ;;
*) echo "the wheel is not named for version $version"; exit 1 ;;
esac

# Nothing of the caller's but the way to the index: no uv on PATH, no cache, no configuration.
way=()
for name in $(compgen -e); do
    case $name in
    *_proxy | *_PROXY | SSL_CERT_* | REQUESTS_CA_BUNDLE | UV_* | PIP_*) way+=("$name=${!name}") ;;
    esac
done
call() { env -i "${way[@]}" HOME="$work/home" PATH=/usr/bin:/bin "$work/tools/bin/python" e2e_tests/one_call.py "$@"; }

echo '== pip install, in an environment of its own'
python3 -m venv "$work/fresh"
"$work/fresh/bin/pip" -q install --disable-pip-version-check "$wheel"
test -x "$work/fresh/bin/uv"
call "$work/fresh/bin/mcp-python-exec-sandbox" --no-warm-cache

echo '== uvx --from the wheel'
call "$work/tools/bin/uvx" --from "$wheel" mcp-python-exec-sandbox --no-warm-cache

echo '== the bundle'
python3 packaging/mcpb.py "$work/fresh/bin/mcp-python-exec-sandbox" "$work"
mkdir "$work/bundle"
"$work/tools/bin/python" - "$work" <<'UNPACK'
# As a client does: unpack, keep the modes, start what the manifest says.
import json, pathlib, sys, zipfile
work = pathlib.Path(sys.argv[1])
folder = work / "bundle"
with zipfile.ZipFile(next(work.glob("*.mcpb"))) as bundle:
    for entry in bundle.infolist():
        path = pathlib.Path(bundle.extract(entry, folder))
        path.chmod(entry.external_attr >> 16 & 0o777)
config = json.loads((folder / "manifest.json").read_text())["server"]["mcp_config"]
(work / "command").write_text(config["command"].replace("${__dirname}", str(folder)))
UNPACK
call "$(cat "$work/command")" --no-warm-cache --uv-path "$work/tools/bin/uv"
echo "== done ($SECONDS s)"
