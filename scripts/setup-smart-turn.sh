#!/usr/bin/env bash
# Makes models/smart-turn/ from a package of PyPI: a network that hears whether a turn is over. Does
# nothing, and needs no network, if the folder is complete and was made by this recipe.
#
# The folder is made beside the old one and moved into place at the end, as in setup-models.sh. The
# tools (60 MB) are deleted afterwards.
source "$(dirname "$0")/common.sh"

models=$root/models
turn=$models/smart-turn

recipe() {
    cat "$root"/scripts/{smart-turn-packages.txt,smart-turn-tools.txt,convert_smart_turn.py} |
        sha256sum | cut -d ' ' -f 1
}

is_complete() {
    [[ -r $turn/RECIPE && $(<"$turn/RECIPE") == "$(recipe)" ]] &&
        (cd "$turn" && sha256sum --check --status SHA256SUMS)
}

is_complete && exit 0
command -v python3 >/dev/null || fail "no python3: install Debian's python3-venv and run this again"
mkdir -p "$models"
exec 9>"$models/.lock-smart-turn"
flock 9
is_complete && exit 0
rm -rf "$models"/.smart-turn-*
say "fetching the turn model (12 MB, and 25 MB of tools)"
work=$(mktemp -d "$models/.smart-turn-XXXXXX")
trap 'rm -rf "$work"' EXIT

environment "$work/.venv-smart-turn-tools" "$root/scripts/smart-turn-tools.txt" onnx \
    --only-binary :all:
pip_logged smart-turn-packages "$shared_pip" download --no-deps --only-binary :all: --require-hashes \
    --dest "$work/wheels" --requirement "$root/scripts/smart-turn-packages.txt"

made=$work/smart-turn
mkdir "$made"
run_logged smart-turn-convert "$work/.venv-smart-turn-tools/bin/python" \
    "$root/scripts/convert_smart_turn.py" "$work/wheels" "$made" ||
    fail "the turn model could not be converted; see ${setup_logs#"$root"/}/smart-turn-convert.log"
(cd "$made" && sha256sum smart-turn.onnx >SHA256SUMS)
recipe >"$made/RECIPE"
[[ ! -e $turn ]] || mv -T "$turn" "$work/old"
mv -T "$made" "$turn"
say "the turn model is in models/smart-turn/ ($(du -shL "$turn" | cut -f 1))"
