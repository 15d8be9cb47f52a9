#!/usr/bin/env bash
# Fetches the Swift packages that Package.swift names, unless they are present. It runs before the
# build, so that a missing network gives one line and not git's forty.
source "$(dirname "$0")/common.sh"

fetched=$root/.build/workspace-state.json
[[ $fetched -nt $root/Package.swift ]] && exit 0

say "fetching the Swift packages that Package.swift names"
run_logged swift-packages swift package --package-path "$root" resolve || {
    log=.build/setup/swift-packages.log
    failed_on_network swift-packages &&
        fail "the Swift packages cannot be fetched: check the network (and git's access to" \
            "GitHub) and run this again; git's words are in $log"
    fail "swift package resolve failed; see $log"
}
touch "$fetched"
