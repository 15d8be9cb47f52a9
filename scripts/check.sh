#!/usr/bin/env bash
# Checks a change: lint of the files that differ, the house rules, and the Swift tests of the changed
# targets and of the layers above them. scripts/changes.py finds out which.
#
#   check.sh      BASE: the revision to compare with; HEAD by default
#
# Changed client tests run if the release binary is newer than every source. Checks that are not run
# here are named at the end.
# shellcheck source=scripts/swift-tests.sh
source "$(dirname "$0")/swift-tests.sh"

base=${BASE:-HEAD}
cd "$root"
plan=$(scripts/changes.py "$base")
changed=0 everything='' scripts=''
tests=() builds=() format=() shell=() clients=() others=() failed=()
while read -r key value; do
    case $key in
        changed) changed=$value ;;
        everything) everything=yes ;;
        tests) tests+=("$value") ;;
        builds) builds+=("$value") ;;
        format) format+=("$value") ;;
        shell) shell+=("$value") ;;
        scripts) scripts=yes ;;
        client) clients+=("$value") ;;
        other) others+=("$value") ;;
        *) fail "scripts/changes.py said: $key $value" ;;
    esac
done <<<"$plan"
if ((changed == 0)); then
    say "nothing differs from $base: checking lint of all files, and the house rules"
else
    say "$changed files differ from $base: testing ${tests[*]}"
fi

# check NAME COMMAND…: runs one part of the check; a failure does not keep the others from running.
check() {
    local name=$1
    shift
    "$@" || failed+=("$name")
}

lint_format() {
    if [[ ${format[*]} == everything ]]; then
        swift format lint --strict --parallel --recursive Package.swift Sources Tests LoadTests \
            examples
    else
        swift format lint --strict --parallel "${format[@]}"
    fi
}

lint_shell() {
    [[ ${shell[*]} != everything ]] || shell=(scripts/*.sh Tests/*/*.sh .ci/run)
    shellcheck --external-sources --source-path=scripts "${shell[@]}"
}

run_tests() {
    # In a subshell, so that tests that do not build leave the parts that follow.
    (
        [[ $everything ]] || export PARLEY_TESTS="${tests[*]} ${builds[*]}"
        build_swift_tests "${tests[*]}"
        # shellcheck disable=SC2119  # All tests of the targets, without arguments.
        run_swift_tests
    )
}

((${#format[@]} == 0)) || check "format of Swift files" lint_format
((${#shell[@]} == 0)) || check shellcheck lint_shell
[[ ! $scripts ]] || check "tests of the scripts" python3 Tests/scripts/run.py
check "Swift tests" run_tests

binary=${PARLEY_BINARY:-.build/release/parley}
newer=
[[ ! -x $binary ]] || newer=$(find Sources Package.swift -type f -newer "$binary" -print -quit)
for file in "${clients[@]}"; do
    if [[ -x $binary && ! $newer ]]; then
        check "$file" Tests/clients/run.sh "$file"
    else
        others+=("make build && Tests/clients/run.sh $file")
    fi
done

((${#others[@]} == 0)) || printf 'parley: not run: %s\n' "${others[@]}"
if ((${#failed[@]})); then
    printf 'parley: failed after %d s: %s\n' "$SECONDS" "$(printf '%s, ' "${failed[@]}" | sed 's/, $//')"
    exit 1
fi
say "checked in $SECONDS s"
