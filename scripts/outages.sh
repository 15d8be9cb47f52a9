#!/usr/bin/env bash
# What outages cost records and webhooks: LoadTests/outages against a server of its own for each case.
# Needs root. Arguments go to outages.py.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

((EUID == 0)) || fail "outages.sh needs root: it mounts the disk that it fills"
"$root/scripts/setup-apt.sh" test
environment "$root/.venv-clients" "$root/Tests/clients/requirements.txt" \
    "the client library and pytest"
ulimit -n "$(ulimit -H -n)"
exec "$root/.venv-clients/bin/python" "$root/LoadTests/outages/outages.py" "$@"
