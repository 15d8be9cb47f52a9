#!/usr/bin/env bash
# Runs the fuzz targets, two at a time, and prints one line for each at the end: inputs tried, edges
# of the code reached, inputs that reach them, findings. Fails on any finding: a trap, a failed
# check, a leak, or more than 10 s or 2 GiB for one input.
#
#   SECONDS_EACH  how long each target runs; 60
#   TARGET        only this one
#   INPUT         instead of fuzzing, runs this file through TARGET once
#   COVERAGE      1: instead of fuzzing, prints which lines of the code the corpus reaches
#   IF_CHANGED    1: fuzzes only code that differs from what scripts/fuzz-passed.txt names
#
# The corpus in .build-fuzz/corpus/ grows from run to run. The targets themselves write the first
# one. A run of all targets without a finding writes scripts/fuzz-passed.txt, to be committed with the
# change. So a clone, which knows nothing of earlier runs, does not repeat them: the build with the
# sanitizer takes minutes, and the Swift tests run every target on fixed inputs anyway.
source "$(dirname "$0")/common.sh"

all=(
    http_message websocket_frames deflate client_event opus_packets ogg_opus ogg_opus_recovery
    connection_bytes saved_session telephone
)
seconds=${SECONDS_EACH:-60}
work=$root/.build-fuzz
program=$work/release/parley-fuzz
passed_state=$root/scripts/fuzz-passed.txt
# A shorter run of each target does not count.
least_seconds=15

[[ $seconds =~ ^[1-9][0-9]*$ ]] || fail "SECONDS is a number of seconds, not '$seconds'"
if [[ ${TARGET:-} ]]; then
    [[ " ${all[*]} " == *" $TARGET "* ]] || fail "TARGET is one of ${all[*]}"
    all=("$TARGET")
fi
[[ ! ${INPUT:-} || ${TARGET:-} ]] || fail "INPUT needs a TARGET"

# Prints a hash of the code that is fuzzed and that fuzzes: names and contents. The web pages, which
# Server embeds, and Agents, which it links, are not fuzzed.
fingerprint() {
    cd "$root"
    find Sources/{C*,Session,Server} Tests/{Fuzz,FuzzProgram,Simulation,TestMaterial} \
        scripts/fuzz.sh -type f -regex '.*\.\(swift\|c\|cpp\|h\|modulemap\|dict\|sh\)' -print0 |
        LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -d ' ' -f 1
}

# build FOLDER FLAGS…: builds everything with libFuzzer's instrumentation, optimised, with
# assertions. SwiftPM's own option makes it not look for a main function. The stack of a finding reads
# no more of the debugging information than lines.
build() {
    local folder=$1
    shift
    PARLEY_FUZZ=1 swift build -c release --scratch-path "$folder" --product parley-fuzz \
        --sanitize=fuzzer -Xswiftc -assert-config -Xswiftc Debug \
        -Xswiftc -gline-tables-only -Xcc -gline-tables-only -Xcxx -gline-tables-only "$@"
}

# swiftc takes the last -sanitize for compiling.
build_program() {
    build "$work" -Xswiftc -sanitize=fuzzer,address -Xcxx -fsanitize=address
}

build_for_coverage() {
    build "$work-coverage" -Xswiftc -profile-generate -Xswiftc -profile-coverage-mapping \
        -Xswiftc -use-ld=lld
}

# Swift's own crash report reads memory that the sanitizer guards. libFuzzer's report has the stack
# as well.
export SWIFT_BACKTRACE=enable=no
# Stacks of eight frames per allocation show where a leak comes from; 30 frames would halve the
# speed.
export ASAN_OPTIONS=malloc_context_size=8:quarantine_size_mb=16
export LSAN_OPTIONS=suppressions=$root/scripts/fuzz-leaks.txt:print_suppressions=0
limits=(-timeout=10 -rss_limit_mb=2048 -max_len=4096)

run_target() {
    local target=$1 corpus=$work/corpus/$1
    PARLEY_FUZZ_TARGET=$target PARLEY_FUZZ_SEEDS=$corpus "$program" || return
    PARLEY_FUZZ_TARGET=$target "$program" "${limits[@]}" -max_total_time="$seconds" \
        -dict="$root/Tests/Fuzz/Dictionaries/$target.dict" -print_final_stats=1 -verbosity=1 \
        -artifact_prefix="$work/findings/$target-" "$corpus" >"$work/$target.log" 2>&1
}

# report TARGET STATUS: prints the line of the table, and after a finding how to reproduce it.
report() {
    local target=$1 status=$2 log=$work/$1.log
    local executions edges inputs finding
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    read -r edges inputs < <(
        sed -nE 's/.* cov: ([0-9]+) .* corp: ([0-9]+)\/.*/\1 \2/p' "$log" | tail -n 1) || true
    printf '  %-18s %9s executions %6s edges %5s inputs %2d findings\n' "$target" \
        "${executions:-?}" "${edges:-?}" "${inputs:-?}" "$((status != 0))"
    ((status == 0)) && return
    grep -E 'Fatal error|ERROR: |SUMMARY: ' "$log" | head -n 5 | cut -c 1-300 || true
    finding=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
    printf '    the whole log: %s\n' "${log#"$root"/}"
    [[ ! $finding ]] || printf '    again: make fuzz TARGET=%s INPUT=%s\n' "$target" \
        "${finding#"$root"/}"
}

# Prints how many lines the corpus reaches, by file, for the code that handles a peer's bytes.
report_coverage() {
    local profiles=$work-coverage/profiles target
    rm -rf "$profiles"
    mkdir -p "$profiles"
    for target in "${all[@]}"; do
        LLVM_PROFILE_FILE=$profiles/$target.profraw PARLEY_FUZZ_TARGET=$target \
            "$work-coverage/release/parley-fuzz" -runs=0 "$work/corpus/$target" 2>/dev/null
    done
    llvm-profdata merge -o "$profiles/all.profdata" "$profiles"/*.profraw
    llvm-cov report "$work-coverage/release/parley-fuzz" \
        -instr-profile="$profiles/all.profdata" "$root"/Sources/{Codec,Session,Server} |
        awk 'NR > 2 && NF > 9 { printf "  %-40s %5d lines %8s reached\n", $1, $8, $10 }'
}

state=$(fingerprint)
passed=
[[ ! -e $passed_state ]] || read -r passed _ <"$passed_state" || true
if [[ ${IF_CHANGED:-} && $state == "$passed" ]]; then
    say "Codec, Session and Server are as in the last fuzzed state (${passed_state#"$root"/}):" \
        "the build with the sanitizer is left to make test-long"
    printf '0 passed, 0 failed\n'
    exit
fi
[[ ! ${IF_CHANGED:-} ]] ||
    say "Codec, Session, Server or the targets differ from the last fuzzed state" \
        "(${passed_state#"$root"/})"

if [[ ${COVERAGE:-} ]]; then
    say "building the fuzz targets for coverage"
    run_logged fuzz-coverage build_for_coverage ||
        fail "the fuzz targets do not build: see .build/setup/fuzz-coverage.log"
    report_coverage
    exit
fi

say "building the fuzz targets"
run_logged fuzz-build build_program ||
    fail "the fuzz targets do not build: see .build/setup/fuzz-build.log"
mkdir -p "$work/corpus" "$work/findings"

if [[ ${INPUT:-} ]]; then
    PARLEY_FUZZ_TARGET=$TARGET exec "$program" "${limits[@]}" "$INPUT"
fi

say "fuzzing ${#all[@]} targets, $seconds s each"
failed=0
for ((first = 0; first < ${#all[@]}; first += 2)); do
    pids=()
    pair=("${all[@]:first:2}")
    for target in "${pair[@]}"; do
        run_target "$target" &
        pids+=($!)
    done
    for index in "${!pair[@]}"; do
        status=0
        wait "${pids[index]}" || status=$?
        report "${pair[index]}" "$status"
        failed=$((failed + (status != 0)))
    done
done
# A change during the run may or may not have been in the build.
if [[ $failed == 0 && ! ${TARGET:-} && $state != "$passed" && $state == "$(fingerprint)" ]] &&
    ((seconds >= least_seconds)); then
    printf '%s  Codec, Session, Server and the fuzz targets as they passed make fuzz\n' "$state" \
        >"$passed_state"
    say "${passed_state#"$root"/} names this state now: commit it with the change"
fi
printf '\n%d passed, %d failed\n' $((${#all[@]} - failed)) "$failed"
((failed == 0))
