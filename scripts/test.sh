#!/usr/bin/env bash
# Runs make targets, all of them even when one fails. It closes with a table, a block for each failed test
# (scripts/failures.py), and the line "N passed, N failed", the sum of what the suites counted. A target
# that counts nothing is one test.
#
#   test.sh LANE…     a lane is a list of targets, which run one after another: "lint build"
#
# Lanes run side by side, because many tests wait for something. A lane waits at the word "after:TARGET"
# until another lane has ended that target. A target's output is shown when the target ends.
source "$(dirname "$0")/common.sh"

logs=$root/.build/test
# A target takes 15 minutes at most on two cores. One that hangs is ended and counts as failed, so that
# what it wrote is shown.
limit=40m
mkdir -p "$logs"
passed=0
failed=0
table=()
# Elapsed, user and system seconds of a target.
TIMEFORMAT='%0R %0U %0S'
broken=()

# Sets suite_passed and suite_failed from the log $1 of a target with exit status $2.
count_suite() {
    local log=$1 status=$2
    suite_passed=0
    suite_failed=0
    local closing
    # Swift Testing: "Test run with 12 tests in 3 suites passed after …". It names each failed test
    # on a line of its own.
    if closing=$(grep -oE 'Test run with [0-9]+ tests?' "$log" | tail -n 1) && [[ $closing ]]; then
        local total=${closing//[^0-9]/}
        suite_failed=$(grep -cE '^[^ ]+ +Test [^ ].* failed after ' "$log" || true)
        suite_failed=$((suite_failed > total ? total : suite_failed))
        suite_passed=$((total - suite_failed))
    # "3 passed, 1 failed", or pytest's "1 failed, 3 passed in 2.10s".
    elif closing=$(grep -E '^=* *[0-9]+ (passed|failed)\b' "$log" | tail -n 1) &&
        [[ $closing ]]; then
        [[ $closing =~ ([0-9]+)\ passed ]] && suite_passed=${BASH_REMATCH[1]}
        [[ $closing =~ ([0-9]+)\ (failed|error) ]] && suite_failed=${BASH_REMATCH[1]}
    elif ((status == 0)); then
        suite_passed=1
    fi
    # A suite that stopped after its last complete count has failed as well.
    ((status == 0 || suite_failed > 0)) || suite_failed=1
}

# Runs a target; its output and its line of the table go to files.
run_target() {
    local target=$1 status=0
    say "make $target begins"
    { time timeout --foreground --kill-after=60 --verbose "$limit" \
        make --no-print-directory -C "$root" "$target" >"$logs/$target.log" 2>&1; } \
        2>"$logs/$target.time" || status=$?
    count_suite "$logs/$target.log" "$status"
    printf '%d %d %s\n' "$suite_passed" "$suite_failed" "$(tail -n 1 "$logs/$target.time")" \
        >"$logs/$target.part"
    mv "$logs/$target.part" "$logs/$target.count"
    # One target's output at a time.
    {
        flock 9
        say "make $target"
        cat "$logs/$target.log"
    } 9>"$logs/output.lock"
}

run_lane() {
    local target
    for target in "$@"; do
        if [[ $target == after:* ]]; then
            until [[ -e $logs/${target#after:}.count ]]; do sleep 0.2; done
        else
            run_target "$target"
        fi
    done
}

targets=()
for lane in "$@"; do
    read -ra names <<<"$lane"
    for name in "${names[@]}"; do
        [[ $name == after:* ]] || targets+=("$name")
    done
done
(cd "$logs" && rm -f "${targets[@]/%/.count}")
# Lanes in the background do not see Ctrl-C: everything of this run ends with it.
trap 'trap - TERM; kill 0' INT TERM
for lane in "$@"; do
    read -ra names <<<"$lane"
    run_lane "${names[@]}" &
done
wait
for target in "${targets[@]}"; do
    # A lane that broke off has not counted its targets.
    read -r suite_passed suite_failed seconds user system <"$logs/$target.count" ||
        { suite_passed=0 suite_failed=1 seconds=0 user=0 system=0; }
    passed=$((passed + suite_passed))
    failed=$((failed + suite_failed))
    ((suite_failed == 0)) || broken+=("$target=$logs/$target.log")
    table+=("$(printf '  %-16s %5d passed %5d failed %5.0f s %5.0f s of processor' \
        "$target" "$suite_passed" "$suite_failed" "$seconds" $((user + system)))")
done

printf '\n'
printf '%s\n' "${table[@]}"
printf '  %-16s %39d s\n' together "$SECONDS"
if ((failed > 0)); then
    printf '\n'
    "$root/scripts/failures.py" "${broken[@]}" || true
fi
printf '\n%d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
