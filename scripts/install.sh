#!/usr/bin/env bash
# Copies the server and its models below the folder $1: bin/parley and share/parley/models. Builds
# nothing, so that root does not build.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

prefix=$1
cd "$root"
[[ -x .build/release/parley && -r models/silero_vad.bin ]] \
    || fail "there is nothing to install; run 'make build' first"
install -D -m 755 .build/release/parley "$prefix/bin/parley"
install -d "$prefix/share/parley/models"
cp -R --no-target-directory models "$prefix/share/parley/models"
rm -f "$prefix"/share/parley/models/.lock*
say "installed $prefix/bin/parley and $prefix/share/parley/models"
