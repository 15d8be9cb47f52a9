#!/usr/bin/env bash
# Runs the Swift tests that a word names, and builds no more than their layer needs.
#
#   unit.sh WORD      a suite, a file, a folder or a test target: TurnDetector, Hearing, CodecTests
#
# Prints the seconds that building and running took.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

word=${1:-}
[[ -n $word ]] || fail "name what to test: make unit T=TurnDetector"
cd "$root"
targets=(CodecTests SessionTests AgentsTests ServerTests ParleyTests ConversationTests HarnessTests
    TidyTests)

# Which tests: a whole target, all of a folder, or the suites of files with the word in their names.
filter=()
if [[ " ${targets[*]} " == *" $word "* ]]; then
    tests=$word
    filter=(--filter "^$word\\.")
else
    mapfile -t files < <(for target in "${targets[@]}"; do
        find "Tests/$target" -name '*.swift' \( -path "*/$word/*" -o -name "*$word*" \)
    done | sort)
    [[ ${#files[@]} -gt 0 ]] || fail "no test file or folder has \"$word\" in its name"
    tests=$(printf '%s\n' "${files[@]}" | cut -d/ -f2 | sort -u | tr '\n' ' ')
    # A file may hold more than one suite.
    mapfile -t suites < <(grep -hoE '@Suite[^{]*struct [A-Za-z0-9]+|^struct [A-Za-z0-9]+Tests\b' \
        "${files[@]}" | grep -oE '[A-Za-z0-9]+$' | sort -u)
    [[ ${#suites[@]} -gt 0 ]] || fail "the files with \"$word\" in their names hold no suite"
    filter=(--filter "\\.($(IFS='|' && echo "${suites[*]}"))/")
fi
tests=${tests% }

export PARLEY_STRICT=1 PARLEY_TESTS=$tests
start=$SECONDS
say "building $tests"
log=$setup_logs/unit-build.log
run_logged unit-build swift build --build-tests --scratch-path .build/unit || {
    grep -E 'error:' "$log" | sort -u >&2
    fail "the tests do not compile: $log"
}
built=$SECONDS
swift test --skip-build --disable-xctest --scratch-path ".build/unit" "${filter[@]}"
say "built in $((built - start)) s, run in $((SECONDS - built)) s"
