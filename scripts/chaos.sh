#!/usr/bin/env bash
# Measures what callers notice of crashes, restarts and lost networks: LoadTests/chaos against
# clusters of scripts/cluster.sh. Needs root. Arguments go to chaos.py.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

((EUID == 0)) || fail "chaos.sh needs root: it cuts nodes off their network"
"$root/scripts/setup-apt.sh" cluster test
test_environment
ulimit -n "$(ulimit -H -n)"
exec "$test_python" "$root/LoadTests/chaos/chaos.py" "$@"
