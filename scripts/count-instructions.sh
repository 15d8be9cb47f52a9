#!/usr/bin/env bash
# Counts what an echoed message costs in user space, with callgrind instead of a clock:
# instructions, allocations, reference counts and run-time access checks. It measures Parley and a
# minimal echo server in C (LoadTests/peers/websocket_echo.c). A run of N messages is subtracted
# from one of 2N, so that the start and the end of the process do not count.
#
#   count-instructions.sh [CONNECTIONS…]      default: 100 and 1
source "$(dirname "$0")/common.sh"

port=9168
messages=20000
work=$(mktemp -d)
server=
trap '[[ -z $server ]] || kill "$server" 2>/dev/null; rm -rf "$work"' EXIT

# valgrind cannot read the debug information of a static Swift binary.
strip --strip-debug -o "$work/parley" "$root/.build/release/parley"

# run OUTPUT MESSAGES CONNECTIONS BYTES PATH COMMAND…
run() {
    local output=$1 count=$2 connections=$3 bytes=$4 path=$5
    shift 5
    valgrind --tool=callgrind --callgrind-out-file="$output" "$@" >"$work/log" 2>&1 &
    server=$!
    until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
        kill -0 "$server" 2>/dev/null || fail "the server ended at once: $(tail -n 3 "$work/log")"
        sleep 0.2
    done
    "$root/.build/release/parley-load" echo-messages --port "$port" --process "$server" \
        --path "$path" --connections "$connections" --bytes "$bytes" --messages "$count"
    kill "$server"
    wait "$server" || true
    server=
}

# count NAME CONNECTIONS BYTES PATH COMMAND…
count() {
    local name=$1
    shift
    run "$work/once" "$messages" "$@"
    run "$work/twice" $((2 * messages)) "$@"
    python3 "$root/LoadTests/peers/callgrind_difference.py" \
        "$name" "$1" "$2" "$messages" "$work/once" "$work/twice"
}

ulimit -n "$(ulimit -H -n)"
echo '| | connections | bytes | instructions | allocations | retains | releases | access checks |'
echo '|---|---|---|---|---|---|---|---|'
[[ $# -gt 0 ]] || set -- 100 1
for connections; do
    for bytes in 20 160 1024; do
        count C "$connections" "$bytes" / "$root/.build/peers/websocket_echo" "$port"
        count Parley "$connections" "$bytes" /debug/echo "$work/parley" serve \
            --host 127.0.0.1 --port "$port" --shards 1 --debug-echo true --log-level error
    done
done
