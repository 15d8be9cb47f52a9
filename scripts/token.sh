#!/usr/bin/env bash
# Runs a command while it holds one of the two tokens for work that keeps a processor busy, and ends with
# the command's status. Tests/pytest_parley/tokens.py has the rules; below a holder it takes none.
#
#   token.sh COMMAND…
source "$(dirname "$0")/common.sh"

[[ ! ${TEST_TOKEN:-} ]] || exec "$@"
tokens=$root/.build/tokens
mkdir -p "$tokens"
exec 7>>"$tokens/queue" 8>>"$tokens/0" 9>>"$tokens/1"
flock 7
until flock --nonblock 8 || flock --nonblock 9; do sleep 0.1; done
exec 7>&-
# The command does not inherit the lock, because it may leave processes behind.
TEST_TOKEN=held "$@" 8>&- 9>&-
