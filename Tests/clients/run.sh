#!/usr/bin/env bash
# Runs the client tests, each against a real `parley serve`: the official openai SDK, `parley talk` with
# human speech, HTTP, a scripted model server, and a web page's client on Node. The client libraries
# openai-agents, pipecat and livekit-agents have an environment of their own, because they need other
# versions of shared packages; MCP's earlier library and the openai SDK of the beta
# have one each, because they have the names of their successors. Each environment is made once.
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
beta=test_openai_beta.py

# in_environment NAME ARGUMENTS…: runs pytest in that environment.
in_environment() {
    local python=$root/.venv-$1/bin/python
    shift
    PARLEY_TEST_BINARY=$binary "$python" -m pytest -q --tb=short -p no:cacheprovider "$@"
}

use_clients() {
    environment "$root/.venv-clients" requirements.txt "the client library and pytest"
    environment "$root/.venv-mcp-earlier" requirements-mcp-earlier.txt "version 1 of MCP's library"
}

# The agents of examples/brain; LangGraph's adapter for AG-UI and OpenAI's types, which only the tests
# use.
use_brains() {
    environment "$root/.venv-brain" "$root/examples/brain/requirements.txt" \
        "FastAPI, LangGraph and Pydantic AI" ag-ui-langgraph==0.0.47 openai==3.51.0
}

use_libraries() {
    environment "$root/.venv-agents" requirements-agents.txt \
        "openai-agents, pipecat and livekit-agents" --no-deps
}

# The openai SDK of the beta's time.
use_beta() {
    environment "$root/.venv-beta" requirements-beta.txt "the openai SDK of the beta"
}

if (($#)); then
    if [[ " $* " == *"$beta"* ]]; then
        use_beta
        in_environment beta "$@"
        exit
    fi
    for name in "${libraries[@]}"; do
        if [[ " $* " == *"$name"* ]]; then
            use_libraries
            in_environment agents "$@"
            exit
        fi
    done
    use_clients
    [[ " $* " != *test_brain* ]] || use_brains
    in_environment clients "$@"
    exit
fi

use_clients
use_brains
use_libraries
use_beta

# start REPORT NAME FILES…: starts pytest on the files in the environment NAME; its output goes to
# .build/test/REPORT.log.
reports=()
running=()
start() {
    local report=$logs/$1.log
    shift
    reports+=("$report")
    in_environment "$@" >"$report" 2>&1 &
    running+=($!)
}

# Side by side, because mostly the tests wait: for the end of simulated speech, or for a server. Every
# second file goes into the same part, the libraries into a third, and the beta's SDK into a fourth.
parts=([0]="" [1]="")
part=0
for file in test_*.py; do
    [[ " ${libraries[*]} $beta " == *" $file "* ]] && continue
    parts[part]+=" $file"
    part=$((1 - part))
done
for part in 0 1; do
    read -ra files <<<"${parts[part]}"
    start "clients-$part" clients "${files[@]}"
done
start libraries agents "${libraries[@]}"
start beta beta "$beta"

status=0
for index in "${!running[@]}"; do
    wait "${running[index]}" || status=1
    say "${reports[index]##*/}"
    cat "${reports[index]}"
done

# One line for `make test`: conftest.py closes each run with "N passed, N failed".
closing='^([0-9]+) passed, ([0-9]+) failed$'
sed -nE "s/$closing/\1 \2/p" "${reports[@]}" |
    awk '{ passed += $1; failed += $2 } END { printf "%d passed, %d failed\n", passed, failed }'
exit "$status"
