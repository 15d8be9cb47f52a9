#!/usr/bin/env bash
# Makes the virtual environments of the tests. `make test` does so beside its builds, which use one
# processor each; a single target makes what it needs by itself.
source "$(dirname "$0")/common.sh"

test_environment
earlier_environment
