#!/usr/bin/env bash
# Measures the release build: starts it on a port of its own, puts the load of LoadTests on it, and
# prints the table. Arguments go to `parley-load idle-and-speaking`; `--url` would measure another
# server than the one started here.
source "$(dirname "$0")/common.sh"

port=$(
    python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])'
)
mkdir -p "$root/.build/load"
log=$root/.build/load/server.log

# Each session is a socket on either side; the soft limit of 1,024 open files is in the way.
ulimit -n "$(ulimit -H -n)"
cd "$root"
.build/release/parley serve --host 127.0.0.1 --port "$port" >"$log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" || true' EXIT

deadline=$((SECONDS + 10))
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
    kill -0 "$server" 2>/dev/null || fail "the server ended at once; see ${log#"$root"/}"
    ((SECONDS < deadline)) || fail "the server does not listen; see ${log#"$root"/}"
    sleep 0.1
done

say "the load: 1,000 idle sessions and 50 that speak, unless the arguments say otherwise"
.build/release/parley-load idle-and-speaking --url "ws://127.0.0.1:$port/v1/realtime" "$@"
