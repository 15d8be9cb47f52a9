#!/usr/bin/env bash
# What telephone calls cost a server: LoadTests/calls. Arguments go to calls.py.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

"$root/scripts/setup-apt.sh" test
environment "$root/.venv-clients" "$root/Tests/clients/requirements.txt" \
    "the client library and pytest"
ulimit -n "$(ulimit -H -n)"
exec "$root/.venv-clients/bin/python" "$root/LoadTests/calls/calls.py" "$@"
