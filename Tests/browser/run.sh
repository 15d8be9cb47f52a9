#!/usr/bin/env bash
# Runs the web page in Debian's Chromium, headless, with a recording as its microphone. Makes its
# virtual environment once. Leaves a screenshot in .build/browser.png.
#
#   run.sh [PYTEST ARGUMENTS]      PARLEY_BINARY: the server, .build/release/parley by default
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/../../scripts/common.sh"

"$root/scripts/setup-apt.sh" test
binary=${PARLEY_BINARY:-$root/.build/release/parley}
[[ -x $binary ]] || fail "$binary is missing: run \`make build\` first"

venv=$root/.venv-browser
requirements=$root/Tests/browser/requirements.txt
if ! cmp -s "$requirements" "$venv/VERSION"; then
    say "installing the browser driver and pytest into .venv-browser"
    rm -rf "$venv"
    run_logged browser-venv python3 -m venv "$venv" ||
        fail "python3 cannot make a virtual environment: install Debian's python3-venv"
    pip_logged browser-packages "$venv/bin/pip" install --requirement "$requirements"
    cp "$requirements" "$venv/VERSION"
fi

cd "$root/Tests/browser"
PARLEY_TEST_BINARY=$binary exec "$venv/bin/python" -m pytest -q --tb=short -p no:cacheprovider "$@"
