#!/usr/bin/env bash
# Measures what outages cost records and webhooks: LoadTests/outages against a server of its own for
# each case. Needs root. Arguments go to outages.py.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

((EUID == 0)) || fail "outages.sh needs root: it mounts the disk that it fills"
"$root/scripts/setup-apt.sh" test
test_environment
ulimit -n "$(ulimit -H -n)"
exec "$test_python" "$root/LoadTests/outages/outages.py" "$@"
