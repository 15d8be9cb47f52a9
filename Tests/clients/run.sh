#!/usr/bin/env bash
# Runs the client tests: the official openai SDK, `parley talk` with human speech, HTTP, and a
# scripted model server, each against a real `parley serve`. Makes its virtual environment once.
#
#   run.sh [PYTEST ARGUMENTS]      PARLEY_BINARY: the server, .build/release/parley by default
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/../../scripts/common.sh"

"$root/scripts/setup-apt.sh" test
binary=${PARLEY_BINARY:-$root/.build/release/parley}
[[ -x $binary ]] || fail "$binary is missing: run \`make build\` first"

venv=$root/.venv-clients
requirements=$root/Tests/clients/requirements.txt
if ! cmp -s "$requirements" "$venv/VERSION"; then
    say "installing the client library and pytest into .venv-clients"
    rm -rf "$venv"
    run_logged clients-venv python3 -m venv "$venv" ||
        fail "python3 cannot make a virtual environment: install Debian's python3-venv"
    pip_logged clients-packages "$venv/bin/pip" install --requirement "$requirements"
    cp "$requirements" "$venv/VERSION"
fi

cd "$root/Tests/clients"
PARLEY_TEST_BINARY=$binary exec "$venv/bin/python" -m pytest -q --tb=short -p no:cacheprovider "$@"
