# shellcheck shell=bash
# How the Swift tests are built and run. Source it in place of common.sh.
#
# `make test-swift`, `make check` and `make unit` build into the same folder with the same flags, so that
# each finds what the others have built. PARLEY_TESTS names the targets of the package that are to be
# built, separated by spaces; without it everything is.

# shellcheck source=scripts/common.sh
source "${BASH_SOURCE[0]%/*}/common.sh"

# Warnings are errors.
export PARLEY_STRICT=1
# Options of both `swift build` and `swift test`. A folder of their own, because two builds into one
# folder wait for each other, and `make test` builds the server beside the tests. Of debugging
# information only lines are kept, for the stack of a trap: all of it takes a sixth of the build's
# processor time.
swift_test_folder=$root/.build/tests
swift_test_options=(
    --scratch-path "$swift_test_folder" -debug-info-format none -Xswiftc -gline-tables-only
)
# Errors of the compiler that are shown.
most_errors=20

# Shows the last line of the log $2 on the terminal while the process $1 runs.
show_progress() {
    local line
    while kill -0 "$1" 2>/dev/null; do
        line=$(tail -c 1000 "$2" | tail -n 1)
        printf '\r\033[K%s' "${line:0:$((${COLUMNS:-80} - 1))}"
        sleep 0.3
    done
    printf '\r\033[K'
}

# Prints the errors in the log $1 of a build, each once, or the log's end if there are none.
compiler_errors() {
    local errors
    errors=$(grep -E '(^|: )(fatal )?error: |undefined (reference|symbol)' "$1" |
        grep -vE 'error: (fatalError$|[^ ]+ command failed)' | sed "s|$root/||g" |
        awk '!seen[$0]++') || true
    if [[ $errors ]]; then
        head -n "$most_errors" <<<"$errors"
        local more=$(($(wc -l <<<"$errors") - most_errors))
        ((more <= 0)) || printf '… and %d further errors\n' "$more"
    else
        tail -n 20 "$1"
    fi
}

# Gives the tests' folder the Swift packages that set-up has fetched, so that they are fetched once.
copy_packages() {
    local name
    [[ ! -e $swift_test_folder/workspace-state.json && -e $root/.build/workspace-state.json ]] || return 0
    mkdir -p "$swift_test_folder"
    for name in checkouts repositories workspace-state.json; do
        cp -a "$root/.build/$name" "$swift_test_folder/"
    done
}

# build_swift_tests WHAT: builds the tests, which WHAT describes. Fails with the compiler's errors.
build_swift_tests() {
    local log=$setup_logs/swift-tests.log start=$SECONDS
    say "building $1; the log is ${log#"$root"/}"
    copy_packages
    # `make test` builds the server at the same time, for whose end most tests wait.
    run_logged swift-tests nice -n 10 swift build --package-path "$root" --build-tests \
        "${swift_test_options[@]}" &
    local build=$!
    [[ ! -t 1 ]] || show_progress "$build" "$log"
    if ! wait "$build"; then
        compiler_errors "$log" >&2
        fail "the Swift tests do not build; see ${log#"$root"/}"
    fi
    say "built in $((SECONDS - start)) s"
}

# run_swift_tests ARGUMENTS…: runs the tests that were built, and closes with a block for each failed
# one. swift_target is the make target that runs them again; test-swift by default.
run_swift_tests() {
    local target=${swift_target:-test-swift} start=$SECONDS status=0
    local log=$root/.build/test/$target-run.log
    mkdir -p "${log%/*}"
    swift test --package-path "$root" --skip-build --disable-xctest "${swift_test_options[@]}" "$@" \
        2>&1 | tee "$log" || status=$?
    say "run in $((SECONDS - start)) s"
    ((status == 0)) || "$root/scripts/failures.py" "$target=$log"
    return "$status"
}
