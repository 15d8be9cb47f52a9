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
# the options, which may be further packages. Two targets may need the same environment at once; the
# second waits for the first.
#
# A pip of its own takes five seconds for each environment, so one pip in .venv-pip installs into all.
# Packages are not compiled in advance, because a test imports little of them.
environment() {
    local folder=$1 requirements=$2 what=$3
    shift 3
    ! is_made "$folder" "$requirements" "$@" || return 0
    local name=${folder##*/}
    mkdir -p "$setup_logs"
    (
        flock 7
        ! is_made "$folder" "$requirements" "$@" || exit 0
        say "installing $what into $name"
        rm -rf "$folder"
        venv_logged "$folder" --without-pip
        make_pip
        pip_logged "${name#.venv-}-packages" "$shared_pip" --python "$folder" install --no-compile \
            "$@" --requirement "$requirements"
        version "$requirements" "$@" >"$folder/VERSION"
    ) 7>"$setup_logs/${name#.}.lock"
}

# is_made FOLDER REQUIREMENTS OPTIONS…: whether FOLDER holds what `environment` would install.
is_made() {
    local made=$1/VERSION
    shift
    [[ -r $made && $(<"$made") == "$(version "$@")" ]]
}

# version REQUIREMENTS OPTIONS…: prints what is in an environment: the file, the files that its lines
# "-r FILE" include, and the options.
version() {
    local included
    cat "$1"
    while read -r included; do cat "$(dirname "$1")/$included"; done < <(sed -n 's/^-r //p' "$1")
    shift
    (($# == 0)) || printf '%s\n' "$@"
}

# Client libraries that have the names of their successors, and so an environment of their own.
earlier_files=("$root"/Tests/clients/{test_openai_beta,mcp_earlier_server}.py)

# Makes .venv-tests, the environment of the tests in Python and of the measurements in LoadTests, and
# sets $test_python. Packages are installed without their dependencies, so the file lists all that is
# imported; check_imports.py finds what it lacks.
test_environment() {
    environment "$root/.venv-tests" "$root/Tests/requirements.txt" "the libraries of the tests" \
        --no-deps
    # shellcheck disable=SC2034  # For the script that sources this.
    test_python=$root/.venv-tests/bin/python
    keep_bytecode
    local file files=()
    for file in "$root"/Tests/{clients,browser,vad}/*.py "$root"/examples/brain/*.py \
        "$root"/LoadTests/{calls,chaos,network,operators,outages}/*.py; do
        [[ " ${earlier_files[*]} " == *" $file "* ]] || files+=("$file")
    done
    check_imports tests "${files[@]}"
}

# Makes .venv-earlier, and sets $earlier_python.
earlier_environment() {
    environment "$root/.venv-earlier" "$root/Tests/requirements-earlier.txt" \
        "earlier versions of two libraries" --no-deps
    # shellcheck disable=SC2034  # For the script that sources this.
    earlier_python=$root/.venv-earlier/bin/python
    keep_bytecode
    check_imports earlier "${earlier_files[@]}"
}

# Byte code is kept under .build/, whatever PYTHONDONTWRITEBYTECODE says: to compile what one test file
# imports takes seconds, and every worker and every agent of a test would do it again.
keep_bytecode() {
    unset PYTHONDONTWRITEBYTECODE
    export PYTHONPYCACHEPREFIX=$root/.build/pycache
}

# check_imports NAME FILES…: fails with one line if .venv-NAME lacks a package that the files import, or
# has one that nothing imports. It does so once for each environment that is made.
check_imports() {
    local name=$1
    shift
    (
        flock 7
        [[ ! -e $root/.venv-$name/IMPORTED ]] || exit 0
        run_logged "$name-imports" "$root/.venv-$name/bin/python" \
            "$root/Tests/scripts/check_imports.py" "$@" ||
            fail "$(tail -n 1 "$setup_logs/$name-imports.log"); see .build/setup/$name-imports.log"
        touch "$root/.venv-$name/IMPORTED"
    ) 7>"$setup_logs/venv-$name.lock"
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
# (five retries of up to minutes each) would look like a hang. A caller may set other limits: pip_retries, and pip_timeout in seconds.
pip_logged() {
    local name=$1 pip=$2
    shift 2
    run_logged "$name" "$pip" --disable-pip-version-check --no-input \
        --retries "${pip_retries:-2}" --timeout "${pip_timeout:-20}" "$@" && return
    if failed_on_network "$name"; then
        fail "PyPI cannot be reached: check the network (or pip's proxy and index settings) and" \
            "run the same command again. The output is in ${setup_logs#"$root"/}/$name.log"
    fi
    fail "pip failed; see ${setup_logs#"$root"/}/$name.log"
}
