# shellcheck shell=bash
# Functions that the set-up scripts share. Source it from a bash script; do not run it.
#
# A set-up step prints nothing if there is nothing to do, one line when it starts something long,
# and one line on standard error if it fails: what happened and what to do. The output of the tools
# goes to a log under .build/setup/, which that line names.

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
setup_logs=$root/.build/setup

say() {
    printf 'parley: %s\n' "$*"
}

fail() {
    printf 'parley: %s\n' "$*" >&2
    exit 1
}

# run_logged NAME COMMAND…: runs a command and writes its output to the log NAME. Returns false if
# the command failed.
run_logged() {
    mkdir -p "$setup_logs"
    local log=$setup_logs/$1.log
    shift
    "$@" >"$log" 2>&1 </dev/null
}

# Whether the log NAME shows that the network failed, and not the command.
failed_on_network() {
    grep -qiE "temporary failure|could not resolve|failed to establish|unable to connect|\
could not connect|network is unreachable|connection timed out|read timed out|\
max retries exceeded|failed to (fetch|clone)|connection refused" \
        "$setup_logs/$1.log"
}

# pip_logged NAME PIP ARGUMENTS…: runs pip, and fails with one line if pip fails. pip's own limits
# (five retries of up to minutes each) would look like a hang.
pip_logged() {
    local name=$1 pip=$2
    shift 2
    run_logged "$name" "$pip" --disable-pip-version-check --no-input \
        --retries 2 --timeout 20 "$@" && return
    if failed_on_network "$name"; then
        fail "PyPI cannot be reached: check the network (or pip's proxy and index settings) and" \
            "run the same command again. The output is in ${setup_logs#"$root"/}/$name.log"
    fi
    fail "pip failed; see ${setup_logs#"$root"/}/$name.log"
}
