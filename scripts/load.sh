#!/usr/bin/env bash
# Runs the load test at a reduced size: every scenario against a server that the harness starts, in
# one table. Arguments go to `parley-load all`.
source "$(dirname "$0")/common.sh"

cd "$root"
# Each session needs a socket at either end; the soft limit of 1,024 open files is too low.
ulimit -n "$(ulimit -H -n)"
exec .build/release/parley-load all "$@"
