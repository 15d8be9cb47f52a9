#!/usr/bin/env bash
# Measures what an operator's page costs a server with many sessions: LoadTests/operators. Arguments
# go to operators.py.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

"$root/scripts/setup-apt.sh" test
test_environment
ulimit -n "$(ulimit -H -n)"
exec "$test_python" "$root/LoadTests/operators/operators.py" "$@"
