#!/usr/bin/env bash
# Builds and runs all Swift tests.
#
#   test-swift.sh [ARGUMENTS]      ARGUMENTS of `swift test`, such as --filter CodecTests
# shellcheck source=scripts/swift-tests.sh
source "$(dirname "$0")/swift-tests.sh"

build_swift_tests "all Swift tests"
run_swift_tests "$@"
