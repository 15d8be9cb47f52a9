#!/usr/bin/env bash
# Checks that a Swift toolchain that can build Parley is installed. It installs none: the user
# chooses where a toolchain goes.
source "$(dirname "$0")/common.sh"

# 6.2 is the first version with the types that Codec needs (Span, RawSpan).
required=6.2
get="install Swift $required or newer (https://www.swift.org/install/linux/), put it on the PATH"

command -v swift >/dev/null || fail "no Swift toolchain: $get and run this again"
printed=$(swift --version 2>/dev/null) || fail "\`swift --version\` fails: $get and run this again"
[[ $printed =~ Swift\ version\ ([0-9]+\.[0-9]+) ]] ||
    fail "\`swift --version\` names no version: $get and run this again"
found=${BASH_REMATCH[1]}
older=$(printf '%s\n' "$required" "$found" | sort -V | head -n 1)
[[ $older == "$required" ]] ||
    fail "Swift $found is too old: $get and run this again"
