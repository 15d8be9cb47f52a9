#!/usr/bin/env bash
# Measures what one client's flood of messages takes from its neighbours: LoadTests/floods.
# Arguments go to floods.py.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

"$root/scripts/setup-apt.sh" test
test_environment
exec "$test_python" "$root/LoadTests/floods/floods.py" "$@"
