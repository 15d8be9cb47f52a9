#!/usr/bin/env bash
# Measures what telephone calls cost a server: LoadTests/calls. Arguments go to calls.py.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

"$root/scripts/setup-apt.sh" test
test_environment
ulimit -n "$(ulimit -H -n)"
exec "$test_python" "$root/LoadTests/calls/calls.py" "$@"
