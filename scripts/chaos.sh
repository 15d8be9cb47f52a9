#!/usr/bin/env bash
# What callers notice of crashes, restarts and lost networks: LoadTests/chaos against clusters of
# scripts/cluster.sh. Needs root. Arguments go to chaos.py.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

((EUID == 0)) || fail "chaos.sh needs root: it cuts nodes off their network"
"$root/scripts/setup-apt.sh" cluster test
environment "$root/.venv-clients" "$root/Tests/clients/requirements.txt" \
    "the client library and pytest"
ulimit -n "$(ulimit -H -n)"
exec "$root/.venv-clients/bin/python" "$root/LoadTests/chaos/chaos.py" "$@"
