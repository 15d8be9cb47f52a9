#!/usr/bin/env bash
# Tests the release server in a real memory control group. Sessions talk for a while; then it prints
# the kernel's account of the group beside what the clients received. Needs root.
#
#   talk-in-control-group.sh LIMIT MINUTES [SESSIONS [SERVER OPTIONS…]]
#
# LIMIT: bytes of the group, with K, M or G; SESSIONS: 4 by default. Apart from the port the server
# has its default settings. PARLEY_BINARY: the server, .build/release/parley by default.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

(($# >= 2)) || fail "usage: talk-in-control-group.sh LIMIT MINUTES [SESSIONS [SERVER OPTIONS…]]"
limit=$(numfmt --from=iec "$1")
minutes=$2
sessions=${3:-4}
shift $(($# < 3 ? $# : 3))
binary=${PARLEY_BINARY:-$root/.build/release/parley}
[[ -x $binary ]] || fail "$binary is missing: run \`make build\` first"
test_environment

cgroups=/sys/fs/cgroup
if [[ -e $cgroups/cgroup.controllers ]]; then
    group=$cgroups/parley-talk-$$
    limit_file=memory.max peak_file=memory.peak kills=memory.events
    swap_file=memory.swap.max swap_limit=0
else
    group=$cgroups/memory/parley-talk-$$
    limit_file=memory.limit_in_bytes peak_file=memory.max_usage_in_bytes kills=memory.oom_control
    swap_file=memory.memsw.limit_in_bytes swap_limit=$limit
fi
mkdir "$group" || fail "no control group can be made below $cgroups: run this as root"
log=$(mktemp)
server=
peak=0

finish() {
    [[ -z $server ]] || kill "$server" 2>/dev/null || true
    [[ -z $server ]] || wait "$server" 2>/dev/null || true
    rmdir "$group" 2>/dev/null || true
    rm -f "$log"
}
trap finish EXIT

echo "$limit" >"$group/$limit_file"
# If the kernel does not account for swap, there is no limit to set.
echo "$swap_limit" 2>/dev/null >"$group/$swap_file" || true

port=$(
    python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])'
)
cd "$root" || exit
# The shell enters the group and then becomes the server.
bash -c 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"' enter "$group" \
    "$binary" serve --port "$port" "$@" >"$log" 2>&1 &
server=$!

metrics() { curl --fail --silent --max-time 10 "http://127.0.0.1:$port/metrics"; }
# The value of a gauge, or the sum of counters, whose line begins with the given text.
metric() { metrics | awk -v name="$1" 'index($0, name) == 1 { sum += $NF } END { print sum + 0 }'; }

until metrics >/dev/null; do
    kill -0 "$server" 2>/dev/null || fail "the server did not start: $(cat "$log")"
    sleep 0.2
done
printf 'limit: %s bytes; resident at start: %s\n' "$limit" "$(metric process_resident_memory_bytes)"

"$test_python" Tests/clients/talkers.py "$port" "$minutes" "$sessions" &
talkers=$!
while kill -0 "$talkers" 2>/dev/null; do
    resident=$(awk '/^VmRSS/ { print $2 * 1024 }' "/proc/$server/status" 2>/dev/null || echo 0)
    ((${resident:-0} <= peak)) || peak=$resident
    kill -0 "$server" 2>/dev/null || break
    sleep 0.5
done
wait "$talkers" || true

printf 'resident at most, of a reading each half second: %s bytes\n' "$peak"
if kill -0 "$server" 2>/dev/null; then
    printf 'resident at the end: %s bytes\n' "$(metric process_resident_memory_bytes)"
    printf 'sessions refused: %s\n' "$(metric parley_sessions_refused_total)"
    ready=$(curl --silent --output /dev/null --write-out '%{http_code}' \
        "http://127.0.0.1:$port/readyz")
    printf '/readyz: %s\n' "$ready"
else
    printf 'the server is gone\n'
fi
[[ ! -r $group/$peak_file ]] || printf 'group at most: %s bytes\n' "$(cat "$group/$peak_file")"
printf 'oom_kill: %s\n' "$(awk '$1 == "oom_kill" { print $2 }' "$group/$kills")"
echo "the server's warnings:"
grep -iE 'memory|warn|error' "$log" | head -n 20 || true
