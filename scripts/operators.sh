#!/usr/bin/env bash
# What an operator's page costs a server with many sessions: LoadTests/operators. Arguments go to
# operators.py.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

"$root/scripts/setup-apt.sh" test
environment "$root/.venv-clients" "$root/Tests/clients/requirements.txt" \
    "the client library and pytest"
ulimit -n "$(ulimit -H -n)"
exec "$root/.venv-clients/bin/python" "$root/LoadTests/operators/operators.py" "$@"
