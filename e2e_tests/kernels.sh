#!/bin/bash
# What the sandbox comes to on other kernels: scripts, tiers and limits as root and as an ordinary user, with user
# namespaces allowed and refused, with control groups handed down and not, then the confined tier's tests and the escape
# suite. Prints a line for each; `kernels_guest.sh` is what runs in the machine.
#
#   VM_RUNNER=/path/run.sh e2e_tests/kernels.sh [KERNEL ...]
#
# The runner boots a kernel and runs a command in it:
#   run.sh -k KERNEL -u USER [-a ARCH] [--timeout SECONDS] -f FILE:PATH -e NAME=VALUE -- COMMAND ...
# with the command's status as its own, 124 after the time, 125 where the machine did not start. Its user is `user`; the
# cgroup that it runs a user's command in is handed down to that user, root's is not.
# UV names uv; without it the one on PATH is used, where that is a program and not a script. With `none` the machines have none. ESCAPE_ONLY names
# properties to run instead of all, CONFINED_ONLY tests of the confined tier, PARTS parts of `kernels_guest.sh` for root instead
# of all. ARCH=arm64 boots arm64 machines; SERVER, ESCAPE, CONFINED and UV are then programs of arm64. RESULTS is a folder for the whole output of
# each run. JOBS machines run at the same time (2). SERVER, ESCAPE and CONFINED name what is built already.
set -euo pipefail

: "${VM_RUNNER:?names the program that boots a kernel, see the top of this file}"
VM_RUNNER=$(realpath "$VM_RUNNER")
cd "$(dirname "$0")/.."
kernels=("$@")
[ ${#kernels[@]} -gt 0 ] || kernels=(5.10 6.1 6.12 new)
results=${RESULTS:-$(mktemp -d)}
mkdir -p "$results"
uv=()
if [ "${UV:-}" != none ]; then
    file=$(readlink -f "${UV:-$(command -v uv)}")
    case $(head -c 4 "$file") in
    $'\x7fELF') uv=(-f "$file:/usr/local/bin/uv" -e ESCAPE_UV=/usr/local/bin/uv) ;;
    *) echo "$file is no program: name uv's own file in UV" >&2; exit 2 ;;
    esac
fi

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

# The file that cargo built for a test target.
built() {
    cargo test --quiet --test "$1" --no-run --message-format json |
        sed -n "s/.*\"name\":\"$1\".*\"executable\":\"\\([^\"]*\\)\".*/\\1/p" | tail -1
}
escape=${ESCAPE:-$(built escape)}
confined=${CONFINED:-$(built confined)}
server=${SERVER:-$(dirname "$(dirname "$escape")")/mcp-python-exec-sandbox}
# Without what only a debugger reads: a guest's memory is small.
for one in server escape confined; do
    # One that knows the programs' architecture, where it is there.
    "${STRIP:-strip}" -o "$stage/$one" "${!one}" 2>/dev/null || cp "${!one}" "$stage/$one"
done

# Runs the guest's script, as this user; once more where the machine itself did not answer.
guest() {
    local kernel=$1 user=$2 output=$3 status=0
    shift 3
    "$VM_RUNNER" -a "${ARCH:-amd64}" -k "$kernel" -u "$user" --timeout 1800 -e TEST_USER=user -e ESCAPE_BINARY=/usr/local/bin/server \
        -e ESCAPE_ONLY="${ESCAPE_ONLY:-}" -e CONFINED_ONLY="${CONFINED_ONLY:-}" \
        -f "$stage/server:/usr/local/bin/server" -f "$stage/server:$server" -f "$stage/escape:/usr/local/bin/escape" \
        -f "$stage/confined:/usr/local/bin/confined" "${uv[@]}" \
        -f "$PWD/e2e_tests/kernels_guest.sh:/usr/local/bin/kernels_guest" -- bash /usr/local/bin/kernels_guest "$@" \
        >"$output" 2>&1 || status=$?
    [ "$status" -ne 124 ] || [ -n "${again:-}" ] || { again=1 guest "$kernel" "$user" "$output" "$@"; return; }
    return "$status"
}

# Everything on one kernel. Its lines come out together.
kernel() {
    local status=0 lines
    # shellcheck disable=SC2086  # a list of parts
    guest "$1" root "$results/$1-root.txt" ${PARTS:-tiers confined escape} || status=1
    guest "$1" user "$results/$1-user.txt" delegated || status=1
    lines=$(grep -h '^RESULT ' "$results/$1-root.txt" "$results/$1-user.txt" | sed "s/^RESULT /$1${ARCH:+ on $ARCH} /" | column -t -s '|')
    printf '%s\n' "${lines:-$1 FAILED: the machine told nothing, see $results/$1-root.txt}"
    return "$status"
}

failures=0
running=0
for one in "${kernels[@]}"; do
    if [ "$running" -ge "${JOBS:-2}" ]; then
        wait -n || failures=$((failures + 1))
        running=$((running - 1))
    fi
    kernel "$one" &
    running=$((running + 1))
done
while [ "$running" -gt 0 ]; do
    wait -n || failures=$((failures + 1))
    running=$((running - 1))
done
echo "the whole output: $results"
exit $((failures > 0))
