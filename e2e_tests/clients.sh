#!/usr/bin/env bash
# Real clients against this server: each connects, lists the tools and, where it can without a model, calls one, over
# standard input and output and over HTTP. Clients are installed into a folder of their own.
#
#   e2e_tests/clients.sh [--readme] [SERVER [FOLDER]]
#
# SERVER is the program (target/debug/mcp-python-exec-sandbox), FOLDER where clients are kept (target/clients). --readme
# puts the table into README.md; without it, a row that does not stand there fails. A client that cannot be installed is skipped with a line that says why.
set -euo pipefail
cd "$(dirname "$0")/.."

readme=
if [ "${1:-}" = --readme ]; then readme=put; shift; fi
server=$(realpath "${1:-target/debug/mcp-python-exec-sandbox}")
folder=${2:-target/clients}
mkdir -p "$folder"
folder=$(realpath "$folder")
here=$PWD/e2e_tests/clients
work=$(mktemp -d)
table=$work/table
passed=0 failed=0 skipped=0
http_server=

finish() {
    if [ -n "$http_server" ]; then kill "$http_server" 2>/dev/null || true; wait "$http_server" 2>/dev/null || true; fi
    rm -rf "$work"
}
trap finish EXIT

# Nothing of the user's own settings is read or written. The folder is no temporary one: Codex refuses those.
home=$folder/home
rm -rf "$home"
mkdir -p "$home" "$home/.codex" "$work/data"
export HOME=$home XDG_CACHE_HOME=$work/data XDG_CONFIG_HOME=$home/.config GEMINI_CLI_TRUST_WORKSPACE=true NO_COLOR=1
options=(--no-warm-cache --pool-size 0)

skip() {
    skipped=$((skipped + 1))
    echo "SKIPPED client $1: $2"
}

# Installs packages, each by itself: one that is missing takes no other with it. Versions are fixed, so that a new one
# changes the table only when somebody looks at it.
npm_has() {
    [ -d "$folder/node_modules/$1" ] && [ "$(version_of "$1")" = "$2" ] && return 0
    (cd "$folder" && { [ -f package.json ] || npm init -y >/dev/null; } &&
        timeout 300 npm install --no-fund --no-audit --loglevel=error "$1@$2") >>"$work/npm" 2>&1
}

pip_has() {
    [ -x "$folder/py/bin/python" ] || python3 -m venv "$folder/py" >>"$work/pip" 2>&1 || return 1
    timeout 300 "$folder/py/bin/python" -m pip -q install "$1==$2" >>"$work/pip" 2>&1
}

version_of() { sed -n 's/^ *"version": "\(.*\)".*/\1/p' "$folder/node_modules/$1/package.json" | head -1; }

# client NAME VERSION STDIO HTTP: two functions that do their part, given the command or the address.
client() {
    local name=$1 version=$2 stdio=$3 http=$4 record=$work/$1 reached=no
    mkdir -p "$record"
    if ! (cd "$record" && "$stdio" "$here/record.sh" "$record" "$server" "${options[@]}") >"$record/said" 2>&1; then
        failed=$((failed + 1))
        echo "FAILED $name over standard input and output:"
        tail -20 "$record/said"
        return
    fi
    if (cd "$record" && "$http" "$url" "$token") >"$record/said-http" 2>&1; then
        reached=yes
    else
        failed=$((failed + 1))
        echo "FAILED $name over HTTP:"
        tail -20 "$record/said-http"
    fi
    if python3 "$here/matrix.py" "$record" "$name" "$version" "$reached" >>"$table"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
}

mcp_stdio() { "$folder/py/bin/python" "$here/sdk.py" mcp "$@"; }
mcp_http() { "$folder/py/bin/python" "$here/sdk.py" mcp http "$@"; }
fastmcp_stdio() { "$folder/py/bin/python" "$here/sdk.py" fastmcp "$@"; }
fastmcp_http() { "$folder/py/bin/python" "$here/sdk.py" fastmcp http "$@"; }

inspect_with() {
    timeout 120 mcp-inspector --cli "$@" --method tools/list | grep -q '"execute_python"'
    timeout 120 mcp-inspector --cli "$@" --method tools/call --tool-name execute_python \
        --tool-arg 'script=print(6*7)' | grep -qF 'stdout ---\n42\n'
}
inspector_stdio() { inspect_with "$@"; }
inspector_http() { inspect_with "$1" --transport http --header "Authorization: Bearer $2"; }

listed() { tee /dev/stderr | grep -i "$1.*connected" | grep -qiv 'disconnected\|failed'; }
claude_stdio() {
    claude mcp add python-sandbox -- "$@"
    timeout 120 claude mcp list | listed python-sandbox
    claude mcp remove python-sandbox
}
claude_http() {
    claude mcp add --transport http python-http "$1" --header "Authorization: Bearer $2"
    timeout 120 claude mcp list | listed python-http
}
gemini_stdio() {
    gemini mcp add python-sandbox "$@"
    timeout 120 gemini mcp list 2>&1 | listed python-sandbox
}
gemini_http() {
    gemini mcp add --transport http --header "Authorization: Bearer $2" python-http "$1"
    timeout 120 gemini mcp list 2>&1 | listed python-http
}
codex_stdio() {
    codex mcp add python-sandbox -- "$@"
    "$python" "$here/codex.py" "$(command -v codex)" python-sandbox
}
codex_http() {
    codex mcp add python-http --url "$1" --bearer-token-env-var SANDBOX_TOKEN
    SANDBOX_TOKEN=$2 "$python" "$here/codex.py" "$(command -v codex)" python-http
}

python=$(command -v python3)
token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
MCP_PYTHON_EXEC_SANDBOX_TOKEN=$token "$server" "${options[@]}" --http 0 2>"$work/http" &
http_server=$!
for _ in $(seq 100); do
    url=$(sed -n 's/^serving on //p' "$work/http")
    [ -n "$url" ] && break
    sleep 0.1
done
[ -n "${url:-}" ] || { cat "$work/http"; exit 1; }

while read -r library version; do
    if pip_has "$library" "$version"; then
        client "$library" "$version" "${library}_stdio" "${library}_http" </dev/null
    else
        skip "$library" "the package index does not have version $version"
    fi
done <<'LIBRARIES'
mcp 2.3.0
fastmcp 4.2.3
LIBRARIES

clients='Inspector @modelcontextprotocol/inspector 2.12.0 inspector
Claude-Code @anthropic-ai/claude-code 2.1.332 claude
Codex @openai/codex 0.171.0 codex
Gemini-CLI @google/gemini-cli 0.61.0 gemini'
node=no
if ! command -v npm >/dev/null; then
    node='there is no npm'
elif ! npm_has node 22.23.3; then
    node='npm does not have Node 22'
fi
export PATH="$folder/node_modules/node/bin:$folder/node_modules/.bin:$PATH"
while read -r name package version functions; do
    if [ "$node" != no ]; then
        skip "$name" "$node"
    elif npm_has "$package" "$version"; then
        client "$name" "$version" "${functions}_stdio" "${functions}_http" </dev/null
    else
        skip "$name" "npm does not have version $version"
    fi
done <<<"$clients"

{
    echo '| client | opens with | lists tools | calls | over HTTP |'
    echo '|---|---|---|---|---|'
    sed 's/Claude-Code/Claude Code/; s/Gemini-CLI/Gemini CLI/' "$table"
} >"$work/matrix"
cat "$work/matrix"
e2e_tests/readme.sh "${readme:-check}" clients "$work/matrix" || failed=$((failed + 1))
echo "clients: $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
