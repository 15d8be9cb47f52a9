#!/usr/bin/env bash
# The load test at a reduced size: every scenario against a server of the harness's own, one table.
# Arguments go to `parley-load all`.
source "$(dirname "$0")/common.sh"

cd "$root"
# Each session is a socket on either side; the soft limit of 1,024 open files is in the way.
ulimit -n "$(ulimit -H -n)"
exec .build/release/parley-load all "$@"
