#!/usr/bin/env bash
# Runs the client tests, each against a real `parley serve`: the official openai SDK, `parley talk` with
# human speech, HTTP, a scripted model server, and a web page's client on Node. The openai SDK of the
# beta has the name of its successor, so its file runs in an environment of its own.
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
test_environment
earlier_environment
libraries=(test_livekit.py test_openai_agents.py test_pipecat.py)
beta=test_openai_beta.py

# in_environment NAME ARGUMENTS…: runs pytest in that environment.
in_environment() {
    local python=$root/.venv-$1/bin/python
    shift
    PARLEY_TEST_BINARY=$binary "$python" -m pytest -q --tb=short -p no:cacheprovider "$@"
}

if (($#)); then
    if [[ " $* " == *"$beta"* ]]; then
        in_environment earlier "$@"
    else
        in_environment tests "$@"
    fi
    exit
fi

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
    start "clients-$part" tests "${files[@]}"
done
start libraries tests "${libraries[@]}"
start beta earlier "$beta"

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
