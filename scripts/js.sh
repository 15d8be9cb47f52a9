#!/usr/bin/env bash
# Packs parley.js, the client of web pages, as npm packs a package: .build/js/NAME-VERSION.tgz, and the
# same files as a folder in .build/js/package. It needs no npm. The same files give the same bytes.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

resources=$root/Sources/Server/Resources
out=$root/.build/js

# field NAME: a text of package.json.
field() {
    sed -nE "s/^  \"$1\": \"([^\"]+)\".*/\1/p" "$root/js/package.json"
}
archive=$out/$(field name)-$(field version).tgz

rm -rf "$out"
mkdir -p "$out/package/parley"
cp "$resources/parley.js" "$resources/parley.d.ts" "$root"/js/{package.json,README.md} "$root/LICENSE" \
    "$out/package"
cp "$resources"/parley/*.js "$out/package/parley"
tar --create --directory "$out" --sort=name --format=ustar --mtime=@0 --owner=0 --group=0 \
    --numeric-owner --mode=u=rwX,go=rX package | gzip -n -9 >"$archive"
say "${archive#"$root"/}"
