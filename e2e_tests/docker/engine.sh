#!/bin/sh
# Starts or stops a container engine for the tests, as root, where none runs: never a second one on the same network.
#
#   engine.sh start     starts one and waits until it answers; its process id is in /run/docker.pid
#   engine.sh stop      ends it in order, and takes away what it changed on this machine: bridges, packet filter rules,
#                       forwarding, mounts
#   ENGINE_DATA=/folder   where its images and volumes are, instead of the usual place
set -eu
kept=/run/mcp-python-test-engine
data=${ENGINE_DATA:-/var/lib/docker}

start() {
    if docker info >/dev/null 2>&1; then
        echo "an engine answers already"
        exit 0
    fi
    # Once: after a stop that was not this one's the rules of the last engine are still there.
    if mkdir "$kept" 2>/dev/null; then
        iptables-save >"$kept/rules" 2>/dev/null || true
        cat /proc/sys/net/ipv4/ip_forward >"$kept/forwarding"
        ls /sys/class/net >"$kept/devices"
    fi
    setsid dockerd --data-root "$data" >/var/log/dockerd.log 2>&1 </dev/null &
    for _ in $(seq 150); do
        if docker info >/dev/null 2>&1; then
            exit 0
        fi
        sleep 0.1
    done
    echo "the engine did not come up within 15 seconds:" >&2
    tail -n 5 /var/log/dockerd.log >&2
    exit 1
}

stop() {
    pid=$(cat /run/docker.pid 2>/dev/null || true)
    if [ -n "$pid" ]; then
        kill -TERM "$pid" 2>/dev/null || true
        while [ -d "/proc/$pid" ]; do
            sleep 0.1
        done
    fi
    [ -d "$kept" ] || exit 0
    for bridge in $(ls /sys/class/net | grep -E '^(docker0|br-[0-9a-f]{12})$' || true); do
        grep -qx "$bridge" "$kept/devices" || ip link delete "$bridge"
    done
    # Tables that were not in use then have no line to go back to.
    for table in filter nat; do
        grep -q "^\*$table" "$kept/rules" && continue
        for chain in INPUT FORWARD OUTPUT; do iptables -t "$table" -P "$chain" ACCEPT 2>/dev/null || true; done
        iptables -t "$table" -F 2>/dev/null || true
        iptables -t "$table" -X 2>/dev/null || true
    done
    iptables-restore <"$kept/rules" 2>/dev/null || true
    cat "$kept/forwarding" >/proc/sys/net/ipv4/ip_forward 2>/dev/null || true
    for place in $(cut -d ' ' -f 2 /proc/mounts | grep -E "^($data|/run/docker)(/|\$)" | sort -r); do
        umount "$place" || true
    done
    rm -r "$kept"
}

case ${1:-} in
start) start ;;
stop) stop ;;
*)
    echo "usage: engine.sh start | stop" >&2
    exit 2
    ;;
esac
