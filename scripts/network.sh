#!/usr/bin/env bash
# Measures what a bad network costs a voice conversation: LoadTests/network. Needs root and /dev/net/tun.
# Arguments go to network.py. PARLEY_BINARY: the server, .build/release/parley by default.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

((EUID == 0)) || fail "network.sh needs root: it makes network namespaces"
[[ -c /dev/net/tun ]] || fail "network.sh needs /dev/net/tun: the kernel's module tun"
"$root/scripts/setup-apt.sh" test network
test_environment
"$root/scripts/js.sh" >/dev/null
exec "$test_python" "$root/LoadTests/network/network.py" "$@"
