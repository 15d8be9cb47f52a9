#!/usr/bin/env bash
# Starts the release build on a free port and checks its /metrics with Prometheus' promtool: syntax,
# types, units and help texts. Leaves the page and the server's log in .build/metrics.
set -euo pipefail
cd "$(dirname "$0")/../.."

work=.build/metrics
page=$work/page
mkdir -p "$work"
port=$(
    python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])'
)
.build/release/parley serve --host 127.0.0.1 --port "$port" >"$work/server.log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" || true' EXIT

# fail WORDS…: says what failed, with the end of the server's log.
fail() {
    printf 'FAILED the page of metrics\n'
    printf '%s\n' "$*" | sed 's/^/    /'
    printf "    server's log: %s\n" "$work/server.log"
    tail -n 5 "$work/server.log" | sed 's/^/        /'
    printf '    again: make test-metrics\n'
    exit 1
}

# Time limit for what would otherwise wait for ever. No test depends on how much earlier the answer
# comes.
hang_guard=120
deadline=$((SECONDS + hang_guard))
until curl --fail --silent --output "$page" "http://127.0.0.1:$port/metrics"; do
    kill -0 "$server" 2>/dev/null || fail "the server ended before it answered"
    ((SECONDS < deadline)) || fail "the server does not answer /metrics"
    sleep 0.1
done

grep -q '^# TYPE parley_' "$page" ||
    fail "/metrics names no metric of Parley; it begins: $(head -n 3 "$page")"
complaint=$(promtool check metrics <"$page" 2>&1) || fail "promtool: $(head -n 6 <<<"$complaint")"
echo "1 passed, 0 failed"
