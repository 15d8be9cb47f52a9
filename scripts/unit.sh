#!/usr/bin/env bash
# Runs the Swift tests that a word names, and builds no more than their layer needs.
#
#   unit.sh WORD      part of a file's name, a folder, a test target, or a test's function: TurnDetector,
#                     Hearing, CodecTests, theExampleFileIsAConfigurationWhenUncommented
#
# Prints the seconds that building and running took.
# shellcheck source=scripts/swift-tests.sh
source "$(dirname "$0")/swift-tests.sh"

word=${1:-}
[[ -n $word ]] || fail "name what to test: make unit T=TurnDetector"
cd "$root"

# Which tests: a whole target, those of files by their folder or name, or one by its function.
if [[ $word == *Tests && -d Tests/$word ]]; then
    targets=$word
    filter="^$word\\."
    what="all tests of $word"
else
    mapfile -t files < <(find Tests/*Tests -name '*.swift' \
        \( -path "*/$word/*" -o -name "*$word*" \) -exec grep -l '@Test' {} + | sort)
    if ((${#files[@]})); then
        names=$(printf '%s\n' "${files[@]##*/}" | sed 's/\.swift$//' | paste -sd ' ')
        # A test's identifier ends with its place in the source.
        filter="/(${names// /|})\\.swift:"
    else
        mapfile -t files < <(grep -rl --include='*.swift' "func $word(" Tests/*Tests)
        ((${#files[@]})) || fail "no test, and no file or folder of tests, has \"$word\" in its name"
        names=$word
        filter="/$word\\("
    fi
    targets=$(printf '%s\n' "${files[@]}" | cut -d/ -f2 | sort -u | paste -sd ' ')
    what="$names of $targets"
fi

export PARLEY_TESTS=$targets
build_swift_tests "$what"
run_swift_tests --filter "$filter"
