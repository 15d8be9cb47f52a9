#!/usr/bin/env bash
# Runs the web page in Debian's Chromium, headless, with a recording as its microphone, and the parts of
# parley.js on Node. Leaves pictures in .build/browser/.
#
#   run.sh [PYTEST ARGUMENTS]      PARLEY_BINARY: the server, .build/release/parley by default
#   run.sh --long                  the long tests as well, some of them in Firefox ESR
#
# With arguments, the named tests run in one process. Without, the files are dealt to PARLEY_WORKERS
# processes, 3 by default.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/../../scripts/common.sh"

groups=(test)
[[ " $* " != *" --long "* ]] || groups+=(firefox)
"$root/scripts/setup-apt.sh" "${groups[@]}"
binary=${PARLEY_BINARY:-$root/.build/release/parley}
[[ -x $binary ]] || fail "$binary is missing: run \`make build\` first"
export PARLEY_TEST_BINARY=$binary
test_environment

cd "$root/Tests/browser"
(($#)) || set -- -p xdist.plugin --dist loadfile --numprocesses "${PARLEY_WORKERS:-3}"
# A server would warn of a variable that it does not know.
unset PARLEY_WORKERS
exec "$test_python" -m pytest --disable-plugin-autoload -q -rs --tb=short --strict-markers \
    -p no:cacheprovider "$@"
