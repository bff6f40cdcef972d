#!/bin/bash
# What `kernels.sh` has done in each machine. Prints `RESULT what|who|how it went` for each thing and ends with 1 where one
# of them is not as it should be there.
#
#   kernels_guest.sh PART ...
set -u

failures=0
mkdir -p /tmp/scripts
chmod 755 /tmp/scripts
cat >/tmp/scripts/hello.py <<'PYTHON'
import os, socket, sqlite3, subprocess, tempfile, errno
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
print("hello", os.getuid() != 0)
PYTHON
cat >/tmp/scripts/memory.py <<'PYTHON'
kept = []
while True:
    kept.append(bytearray(1 << 20))
PYTHON
cat >/tmp/scripts/processes.py <<'PYTHON'
import os, sys, time
end = time.monotonic() + 60
while time.monotonic() < end:
    try:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
    except OSError:
        time.sleep(1)
        sys.exit(3)
PYTHON
cat >/tmp/scripts/spin.py <<'PYTHON'
import os, time
start = time.monotonic()
for _ in range(2):
    if os.fork() == 0:
        while time.monotonic() < start + 4:
            pass
        os._exit(0)
for _ in range(2):
    os.wait()
spent = os.times()
print(round(100 * (spent.children_user + spent.children_system) / (time.monotonic() - start)))
PYTHON

as() {
    local who=$1
    shift
    if [ "$who" = root ] || [ "$(id -u)" -ne 0 ]; then
        "$@"
    else
        setpriv --reuid user --regid user --init-groups env HOME=/home/user USER=user "$@"
    fi
}

# One line: what, who, whether it is as it should be (0), and a detail.
tell() {
    local verdict=ok
    [ "$3" -eq 0 ] || { verdict=FAILED failures=$((failures + 1)); }
    printf 'RESULT %s|%s|%s|%s\n' "$1" "$2" "$verdict" "$4"
}

# Runs a script with flags; its words are kept in $said.
run() {
    local who=$1 script=$2
    shift 2
    said=$(as "$who" server --network none --no-warm-cache "$@" run --timeout 200 "/tmp/scripts/$script.py" 2>&1)
}

says() { case $said in *"$1"*) return 0 ;; *) return 1 ;; esac; }

landlock=$(python3 -c 'import ctypes; print(ctypes.CDLL(None).syscall(444, None, 0, 1))')

# A script in the tier that this user has to get, and what doctor says of its layers.
hello() {
    local who=$1 tier=$2 status=0 layers
    if [ "$tier" = none ]; then
        run "$who" hello && status=1
        says "no Landlock" || status=1
        tell "hello, namespaces $namespaces" "$who" "$status" "refused: ${said%%$'\n'*}"
        return
    fi
    run "$who" hello --require-sandbox "$tier" || status=1
    says "hello True" || status=1
    layers=$(as "$who" server doctor 2>&1 | sed -nE 's/^(ok  |note) (sandbox|landlock|memory files[^:]*|control groups): /\2: /p' | tr '\n' ';')
    case $layers in *"tier $tier"*) ;; *) status=1 ;; esac
    [ "$status" -eq 0 ] || printf '%s\n' "$said"
    tell "hello, namespaces $namespaces" "$who" "$status" "$layers"
}

# Limits of the whole run are named, by whatever they are kept.
limits() {
    local who=$1 status=0
    run "$who" memory --memory-limit 300M && status=1
    says "the script reached a limit: memory 300 MiB" || status=1
    [ "$status" -eq 0 ] || printf '%s\n' "$said"
    tell "memory limit, $2" "$who" "$status" "$(printf '%s' "$said" | tail -1)"
    status=0
    run "$who" processes --max-processes 24 && status=1
    says "the script reached a limit: processes 24" || status=1
    [ "$status" -eq 0 ] || printf '%s\n' "$said"
    tell "process limit, $2" "$who" "$status" "$(printf '%s' "$said" | tail -1)"
}

scripts() {
    namespaces=on
    hello root full
    hello user full
}

tiers() {
    scripts
    limits user "watched"
    local status=0
    run user spin --cpu-limit 0.2 && status=1
    says "--cpu-limit needs a control group" || status=1
    tell "processor limit, not handed down" user "$status" "$(printf '%s' "$said" | tail -1)"
    echo 0 >/proc/sys/user/max_user_namespaces
    namespaces=off
    hello root full
    if [ "$landlock" -gt 0 ]; then hello user confined; else hello user none; fi
    echo 15000 >/proc/sys/user/max_user_namespaces
}

# Limits by control groups of version 2 that are handed down to an ordinary user, who shares the group with others.
delegated() {
    local status=0 groups
    groups=$(server doctor 2>&1 | sed -n 's/^ok   control groups: //p')
    case $groups in "version 2, below $VM_CGROUP") ;; *) status=1 ;; esac
    tell "control groups" user "$status" "$groups"
    limits user "by group"
    status=0
    run user spin --cpu-limit 0.2 || status=1
    [ "$said" -le 40 ] 2>/dev/null || status=1
    tell "processor limit, by group" user "$status" "$said hundredths of 20"
    local left
    left=$(find /sys/fs/cgroup -name 'mcp-python-*-*' | wc -l)
    tell "groups that are left" user "$left" "$left"
}

confined() {
    if [ "$landlock" -le 0 ]; then
        echo "RESULT confined tier's tests|root|SKIPPED|the kernel has no Landlock"
        return
    fi
    local status=0 output
    # shellcheck disable=SC2086  # a list of names
    output=$(/usr/local/bin/confined --test-threads=1 ${CONFINED_ONLY:-} 2>&1) || status=1
    printf '%s\n' "$output"
    tell "confined tier's tests" both "$status" "$(printf '%s' "$output" | grep '^test result' | cut -d. -f2-)"
}

escape() {
    local status tiers=
    # Without Landlock there is no confined tier.
    [ "$landlock" -gt 0 ] || tiers=--full
    # Told as it goes: a machine that runs out of time has said what it got to.
    # shellcheck disable=SC2086  # a list of names
    /usr/local/bin/escape $tiers ${ESCAPE_ONLY:-} 2>&1 | tee /tmp/escape.txt
    status=${PIPESTATUS[0]}
    tell "escapes" both "$status" "$(tail -1 /tmp/escape.txt)"
}

for part in "$@"; do
    "$part"
done
exit $((failures > 0))
