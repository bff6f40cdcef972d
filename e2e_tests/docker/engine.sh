#!/bin/sh
# Starts or stops a container engine for the tests, as root, where none runs: never a second one on the same network.
#
#   engine.sh start     starts one and waits until it answers; its process id is in /run/docker.pid
#   engine.sh stop      ends it in order
set -eu
case ${1:-} in
start)
    if docker info >/dev/null 2>&1; then
        echo "an engine answers already"
        exit 0
    fi
    setsid dockerd >/var/log/dockerd.log 2>&1 </dev/null &
    for _ in $(seq 100); do
        if docker info >/dev/null 2>&1; then
            exit 0
        fi
        sleep 0.1
    done
    echo "the engine did not come up within 10 seconds:" >&2
    tail -n 5 /var/log/dockerd.log >&2
    exit 1
    ;;
stop)
    pid=$(cat /run/docker.pid)
    kill -TERM "$pid"
    while [ -d "/proc/$pid" ]; do
        sleep 0.1
    done
    ;;
*)
    echo "usage: engine.sh start | stop" >&2
    exit 2
    ;;
esac
