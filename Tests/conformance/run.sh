#!/usr/bin/env bash
# Runs the Autobahn WebSocket suite against a real `parley serve` and fails on any case that is not
# OK. Makes its virtual environments once. The report is in .build/conformance.
#
#   run.sh           all 517 cases
#   run.sh short     without the large messages of the compression cases
#
# Exit status: 0 all OK, 1 some are not, 77 skipped because Python 2.7, which the suite needs, is
# missing.
# PARLEY_BINARY: the server, .build/release/parley by default.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/../../scripts/common.sh"

selection=${1:-all}
total=517
here=$root/Tests/conformance
binary=${PARLEY_BINARY:-$root/.build/release/parley}

# A Python 2.7 that really runs: pyenv also has commands for versions that are not selected, and
# those only fail.
find_python() {
    local version
    for candidate in python2.7 /usr/bin/python2.7; do
        "$candidate" -c '' 2>/dev/null && command -v "$candidate" && return
    done
    version=$(pyenv versions --bare 2>/dev/null | grep '^2\.7\.' | tail -n 1) &&
        printf '%s/bin/python2.7\n' "$(pyenv prefix "$version")"
}

if ! python=$(find_python); then
    say "conformance skipped: the Autobahn suite needs Python 2.7, which is not here"
    echo "0 passed, 0 failed"
    exit 77
fi
[[ -x $binary ]] || fail "$binary is missing: run \`make build\` first"

venv=$root/.venv-conformance
if ! cmp -s "$here/requirements.txt" "$venv/VERSION"; then
    say "installing the Autobahn suite into .venv-conformance"
    rm -rf "$venv"
    # The last virtualenv that supports Python 2.7.
    mkdir -p "$setup_logs"
    echo 'virtualenv==20.21.1' >"$setup_logs/conformance-maker.txt"
    environment "$venv/maker" "$setup_logs/conformance-maker.txt" virtualenv
    run_logged conformance-python "$venv/maker/bin/virtualenv" --python "$python" "$venv/suite" ||
        fail "virtualenv failed; see .build/setup/conformance-python.log"
    pip_logged conformance-packages "$venv/suite/bin/pip" install \
        --requirement "$here/requirements.txt"
    cp "$here/requirements.txt" "$venv/VERSION"
fi

work=$root/.build/conformance
rm -rf "$work"
mkdir -p "$work"
"$venv/suite/bin/python" "$here/list_cases.py" "$selection" >"$work/cases"
count=$(wc -l <"$work/cases")
[[ $selection != all || $count -eq $total ]] || fail "the suite has $count cases, not $total"

port=$(
    python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])'
)
"$binary" serve --host 127.0.0.1 --port "$port" --debug-echo true >"$work/server.log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" || true' EXIT
# Time limit for what would otherwise wait for ever. No test depends on how much earlier the server
# listens.
hang_guard=120
deadline=$((SECONDS + hang_guard))
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
    kill -0 "$server" 2>/dev/null || fail "the server ended at once; see $work/server.log"
    ((SECONDS < deadline)) || fail "the server does not listen; see $work/server.log"
    sleep 0.1
done

# The suite runs one case at a time on one core, so the cases are dealt to as many suites as there are
# cores. Every second round is dealt backwards, because every second compression case is larger.
say "running $count cases of the Autobahn suite"
parts=$(nproc)
suites=()
for ((part = 0; part < parts; part++)); do
    names=$(awk -v parts="$parts" -v part="$part" \
        '{ seat = NR % (2 * parts); if (seat >= parts) seat = 2 * parts - 1 - seat }
        seat == part { printf "%s\"%s\"", sep, $1; sep = ", " }' "$work/cases")
    printf '{"outdir": "%s", "cases": [%s], "exclude-cases": [], "exclude-agent-cases": {},\n' \
        "$work/report-$part" "$names" >"$work/spec-$part.json"
    printf '"servers": [{"agent": "Parley", "url": "ws://127.0.0.1:%s/debug/echo"}]}\n' \
        "$port" >>"$work/spec-$part.json"
    "$venv/suite/bin/python" "$here/patient_suite.py" --mode fuzzingclient --spec "$work/spec-$part.json" \
        >"$work/suite-$part.log" 2>&1 &
    suites+=($!)
done
for suite in "${suites[@]}"; do
    wait "$suite" || fail "the suite itself failed; see the logs in ${work#"$root"/}"
done
kill -0 "$server" 2>/dev/null || fail "the server ended; see ${work#"$root"/}/server.log"

python3 "$here/judge.py" "$work/cases" "$work"/report-*/index.json
