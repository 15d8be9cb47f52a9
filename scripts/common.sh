# shellcheck shell=bash
# Functions that the set-up scripts share. Source it from a bash script; do not run it.
#
# A set-up step prints nothing if there is nothing to do, and one line when it starts something long.
# If it fails, one line on standard error says what happened and what to do. The output of the tools
# goes to a log under .build/setup/, which that line names.

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
setup_logs=$root/.build/setup
shared_pip=$root/.venv-pip/bin/pip

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

# venv_logged FOLDER OPTIONS…: makes a virtual environment.
venv_logged() {
    local folder=$1 name=${1##*/}
    shift
    run_logged "${name#.venv-}-venv" python3 -m venv "$@" "$folder" ||
        fail "python3 cannot make a virtual environment: install Debian's python3-venv and run" \
            "this again"
}

# environment FOLDER REQUIREMENTS WHAT OPTIONS…: makes a virtual environment with the packages of the
# file REQUIREMENTS, unless FOLDER holds the same already. WHAT names them for the user, and pip gets
# the options, which may be further packages.
#
# A pip of its own takes five seconds for each environment, so one pip in .venv-pip installs into all.
# Packages are not compiled in advance, because a test imports little of them.
environment() {
    local folder=$1 requirements=$2 what=$3
    shift 3
    ! cmp -s <(version "$requirements" "$@") "$folder/VERSION" || return 0
    local name=${folder##*/}
    say "installing $what into $name"
    rm -rf "$folder"
    venv_logged "$folder" --without-pip
    make_pip
    pip_logged "${name#.venv-}-packages" "$shared_pip" --python "$folder" install --no-compile "$@" \
        --requirement "$requirements"
    version "$requirements" "$@" >"$folder/VERSION"
}

# version REQUIREMENTS OPTIONS…: prints what is in an environment.
version() {
    cat "$1"
    shift
    (($# == 0)) || printf '%s\n' "$@"
}

# Makes the environment of the shared pip. Two targets may need it at once; the second waits for the
# first.
make_pip() {
    local folder=$root/.venv-pip
    mkdir -p "$setup_logs"
    (
        flock 8
        [[ -e $folder/VERSION ]] && exit
        rm -rf "$folder"
        venv_logged "$folder"
        touch "$folder/VERSION"
    ) 8>"$setup_logs/pip.lock"
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
