#!/bin/bash
# Runs a script and the escape suite on other kernels, as root and as an ordinary user, with user namespaces allowed
# and refused, and prints a table of what held.
#
#   VM_RUNNER=/path/run.sh e2e_tests/kernels.sh [KERNEL ...]
#
# The runner boots a kernel and runs a command in it:
#   run.sh -k KERNEL -u USER [--sysctl NAME=VALUE] [--timeout SECONDS] -f FILE:PATH -e NAME=VALUE -- COMMAND ...
# with the command's status as its own, 124 after the time, 125 where the machine did not start. Its user is `user`.
# UV names uv; without it the one on PATH is used, where that is a program and not a script. ESCAPE_ONLY names
# properties to run instead of all. RESULTS is a folder for the whole output of each run.
set -euo pipefail

: "${VM_RUNNER:?names the program that boots a kernel, see the top of this file}"
cd "$(dirname "$0")/.."
kernels=("$@")
[ ${#kernels[@]} -gt 0 ] || kernels=(5.10 6.1 6.12 new)
read -ra only <<<"${ESCAPE_ONLY:-}"
results=${RESULTS:-$(mktemp -d)}
mkdir -p "$results"
uv=$(readlink -f "${UV:-$(command -v uv)}")
case $(head -c 4 "$uv") in
$'\x7fELF') ;;
*) echo "$uv is no program: name uv's own file in UV" >&2; exit 2 ;;
esac

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
cargo build --quiet
suite=$(cargo test --quiet --test escape --no-run --message-format json |
    sed -n 's/.*"name":"escape".*"executable":"\([^"]*\)".*/\1/p' | tail -1)
target=$(dirname "$(dirname "$suite")")
# Without what only a debugger reads: a guest's memory is small.
strip -o "$stage/server" "$target/mcp-python-exec-sandbox"
strip -o "$stage/escape" "$suite"
cat >"$stage/smoke.py" <<'PYTHON'
import errno, os, socket, sqlite3, subprocess, tempfile
assert subprocess.run(["echo", "child"], capture_output=True).stdout == b"child\n"
with tempfile.TemporaryFile() as file:
    file.write(b"x")
try:
    server = socket.create_server(("127.0.0.1", 0))
    socket.create_connection(server.getsockname()).close()
except OSError as error:
    # The confined tier has no network of its own.
    assert error.errno == errno.EAFNOSUPPORT, error
sqlite3.connect(":memory:").execute("select 1")
print("smoke", os.getuid())
PYTHON

failures=0

# Runs a command in a guest; once more where the machine itself did not answer.
guest() {
    local output=$1 status=0
    shift
    "$VM_RUNNER" --timeout 1800 -e TEST_USER=user -e ESCAPE_BINARY=/usr/local/bin/server -e ESCAPE_UV=/usr/local/bin/uv \
        -f "$stage/server:/usr/local/bin/server" -f "$stage/escape:/usr/local/bin/escape" -f "$uv:/usr/local/bin/uv" \
        -f "$stage/smoke.py:/tmp/smoke.py" "$@" >"$output" 2>&1 || status=$?
    [ "$status" -ne 124 ] || { [ -n "${again:-}" ] && return 124; again=1 guest "$output" "$@"; return; }
    return "$status"
}

report() {
    local name=$1 kernel=$2 user=$3 status=0
    shift 3
    local output="$results/$name-$kernel-$user.txt"
    guest "$output" -k "$kernel" -u "$user" "$@" || status=$?
    [ "$status" -eq 0 ] || failures=$((failures + 1))
    printf '%-8s %-5s %-24s %s\n' "$kernel" "$user" "$name" \
        "$([ "$status" -eq 0 ] || printf 'FAILED (%s) ' "$status")$(tail -1 "$output")"
}

smoke='server --network none run /tmp/smoke.py && server doctor 2>&1 | grep -E "sandbox:|landlock|memory files" | tr "\n" ";" && echo'
for kernel in "${kernels[@]}"; do
    for user in root user; do
        report smoke "$kernel" "$user" -- bash -c "$smoke"
        report smoke-no-namespaces "$kernel" "$user" --sysctl user.max_user_namespaces=0 -- bash -c "$smoke"
    done
    report escape "$kernel" root -- escape "${only[@]}"
done
echo "the whole output: $results"
exit $((failures > 0))
