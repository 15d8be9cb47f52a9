#!/usr/bin/env bash
# Runs a command on a machine that is made slow. Tests must pass there too: what fails here and not on a
# quiet machine has guessed a time.
#
#   slow.sh busy COMMAND…      two busy loops run beside it
#   slow.sh core COMMAND…      it has one core
#   slow.sh pauses COMMAND…    every server of this checkout is stopped for 200 ms every three seconds
source "$(dirname "$0")/common.sh"

usage="usage: slow.sh busy|core|pauses COMMAND…"
(($# >= 2)) || fail "$usage"
kind=$1
shift

# Stops and continues the servers until it is ended. A server that is stopped already belongs to a test
# that has stopped it, and is left alone.
pause_servers() {
    local pid state stopped=()
    # A server that is stopped when this ends would stay so.
    trap '((${#stopped[@]} == 0)) || kill -CONT "${stopped[@]}" 2>/dev/null; exit' TERM
    while sleep 3; do
        for pid in $(pgrep -x parley); do
            [[ $(readlink "/proc/$pid/exe") == "$root"/* ]] || continue
            # It may have ended since it was listed.
            state=$(sed -n 's/^State:\t\(.\).*/\1/p' "/proc/$pid/status" 2>/dev/null) || continue
            [[ $state != T ]] && kill -STOP "$pid" 2>/dev/null && stopped+=("$pid")
        done
        sleep 0.2
        ((${#stopped[@]} == 0)) || kill -CONT "${stopped[@]}" 2>/dev/null || true
        stopped=()
    done
}

beside=()
trap '((${#beside[@]} == 0)) || kill "${beside[@]}" 2>/dev/null' EXIT
trap 'exit 130' INT TERM
case $kind in
    busy)
        for _ in 1 2; do
            while :; do :; done &
            beside+=($!)
        done
        "$@"
        ;;
    core) taskset --cpu-list 0 "$@" ;;
    pauses)
        pause_servers &
        beside+=($!)
        "$@"
        ;;
    *) fail "$usage" ;;
esac
