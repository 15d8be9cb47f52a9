#!/usr/bin/env bash
# Measures what the embedded parts carry on a core: LoadTests/peers. The first argument is
# `recogniser`, `replies` or `voices`; the others go to the first program of the measurement.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

"$root/scripts/setup-apt.sh" test
test_environment
cd "$root" || exit
measurement=$1
shift
python() { "$test_python" "LoadTests/peers/$1.py" "${@:2}"; }
case $measurement in
    recogniser) python recogniser_turns "$@" && echo && python first_turns ;;
    voices) .build/release/voice-table "$@" && echo && python voice_sessions ;;
    replies) python reply_encoding "$@" && echo && python phrase_cache ;;
esac
