#!/usr/bin/env bash
# Runs the client tests, each against a real `parley serve`: the libraries of applications, `parley talk`
# with human speech, HTTP, scripted model servers, and a web page's client on Node. The openai SDK of the
# beta has the name of its successor, so its file runs in an environment of its own.
#
#   run.sh [PYTEST ARGUMENTS]      PARLEY_BINARY: the server, .build/release/parley by default
#
# With arguments, only the named tests run, in one process. Without, all files are dealt to PARLEY_WORKERS
# processes, four for each processor by default, because most tests wait. Tests/pytest_parley/order.py says
# in which order.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/../../scripts/common.sh"

"$root/scripts/setup-apt.sh" test
binary=${PARLEY_BINARY:-$root/.build/release/parley}
[[ -x $binary ]] || fail "$binary is missing: run \`make build\` first"
export PARLEY_TEST_BINARY=$binary
workers=${PARLEY_WORKERS:-$(($(nproc) * 4))}
# A server would warn of a variable that it does not know.
unset PARLEY_WORKERS
cd "$root/Tests/clients"
test_environment
earlier_environment
beta=test_openai_beta.py
# Plugins of the libraries would be loaded as well, and cost each worker a second.
pytest=(-m pytest --disable-plugin-autoload -q -rs --tb=short --strict-markers -p no:cacheprovider)

if (($#)); then
    [[ " $* " != *"$beta"* ]] || exec "$earlier_python" "${pytest[@]}" "$@"
    exec "$test_python" "${pytest[@]}" "$@"
fi

logs=$root/.build/test
mkdir -p "$logs"
# Logs of servers from earlier runs.
find "$logs" -name 'serve-*.log' -mtime +1 -delete
reports=("$logs"/clients{-beta,}.log)
statuses=(0 0)
"$earlier_python" "${pytest[@]}" "$beta" >"${reports[0]}" 2>&1 &
earlier=$!
"$test_python" "${pytest[@]}" --ignore "$beta" -p xdist.plugin --dist loadfile \
    --numprocesses "$workers" 2>&1 | tee "${reports[1]}" || statuses[1]=1
wait "$earlier" || statuses[0]=1
cat "${reports[0]}"

# One line for `make test`, from the line "N passed, N failed" with which each run closes. A run that
# failed has at least one failure, even if it ended before that line.
passed=0 failed=0
closing='^([0-9]+) passed, ([0-9]+) failed$'
for index in 0 1; do
    read -r one other < <(sed -nE "s/$closing/\1 \2/p" "${reports[index]}") || { one=0 other=0; }
    ((statuses[index] == 0 || other > 0)) || other=1
    passed=$((passed + one)) failed=$((failed + other))
done
printf '%d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
