#!/usr/bin/env bash
# Runs the client tests: the official openai SDK, `parley talk` with human speech, HTTP, a scripted
# model server, a web page's client on Node, and the client libraries openai-agents, pipecat and
# livekit-agents, each against a real `parley serve`. Makes its virtual environments once. The
# client libraries have their own environment, because they need other versions of shared packages.
#
#   run.sh [PYTEST ARGUMENTS]      PARLEY_BINARY: the server, .build/release/parley by default
#
# With arguments, only the named tests run.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/../../scripts/common.sh"

"$root/scripts/setup-apt.sh" test
binary=${PARLEY_BINARY:-$root/.build/release/parley}
[[ -x $binary ]] || fail "$binary is missing: run \`make build\` first"
cd "$root/Tests/clients"
logs=$root/.build/test
mkdir -p "$logs"
libraries=(test_livekit.py test_openai_agents.py test_pipecat.py)

# environment NAME REQUIREMENTS WHAT OPTIONS…: makes the virtual environment .venv-NAME, unless it
# exists with the same requirements.
environment() {
    local venv=$root/.venv-$1 requirements=$2 what=$3
    shift 3
    ! cmp -s "$requirements" "$venv/VERSION" || return 0
    local name=${venv##*/.venv-}
    say "installing $what into .venv-$name"
    rm -rf "$venv"
    run_logged "$name-venv" python3 -m venv "$venv" ||
        fail "python3 cannot make a virtual environment: install Debian's python3-venv"
    pip_logged "$name-packages" "$venv/bin/pip" install "$@" --requirement "$requirements"
    cp "$requirements" "$venv/VERSION"
}

# in_environment NAME ARGUMENTS…: runs pytest in that environment.
in_environment() {
    local python=$root/.venv-$1/bin/python
    shift
    PARLEY_TEST_BINARY=$binary "$python" -m pytest -q --tb=short -p no:cacheprovider "$@"
}

use_clients() {
    environment clients requirements.txt "the client library and pytest"
}

# Not compiled in advance: that would take 470 MB instead of 390, and a test imports little of it.
use_libraries() {
    environment agents requirements-agents.txt "openai-agents, pipecat and livekit-agents" \
        --no-deps --no-compile
}

if (($#)); then
    for name in "${libraries[@]}"; do
        if [[ " $* " == *"$name"* ]]; then
            use_libraries
            in_environment agents "$@"
            exit
        fi
    done
    use_clients
    in_environment clients "$@"
    exit
fi

use_clients
use_libraries
status=0
ignored=("${libraries[@]/#/--ignore=}")
in_environment clients "${ignored[@]}" 2>&1 | tee "$logs/clients.log" || status=1

# In parallel: mostly they wait for the end of simulated speech.
running=()
reports=()
for name in "${libraries[@]}"; do
    reports+=("$logs/$name.log")
    in_environment agents "$name" >"$logs/$name.log" 2>&1 &
    running+=($!)
done
for index in "${!libraries[@]}"; do
    wait "${running[index]}" || status=1
    say "${libraries[index]}"
    cat "${reports[index]}"
done

# One line for `make test`: conftest.py closes each run with "N passed, N failed".
closing='^([0-9]+) passed, ([0-9]+) failed$'
sed -nE "s/$closing/\1 \2/p" "$logs/clients.log" "${reports[@]}" |
    awk '{ passed += $1; failed += $2 } END { printf "%d passed, %d failed\n", passed, failed }'
exit "$status"
