#!/usr/bin/env bash
# Runs Silero's own ONNX model, with onnxruntime, on recordings of people, clean and in pink noise
# at 15 and 5 dB. The Swift tests must agree with it to 1e-4 in every window. Also checks that the
# stored fixture still matches the model.
# shellcheck source=scripts/swift-tests.sh
source "$(dirname "$0")/../../scripts/swift-tests.sh"

test_environment
work=$root/.build/vad
mkdir -p "$work"
model=$work/silero_vad_16k_op15.onnx
if [[ ! -s $model ]]; then
    # The same wheel, checked by the same hash, from which the weights are taken.
    sed -n '/^silero-vad/,/hash/p' "$root/scripts/models-packages.txt" >"$work/requirements.txt"
    make_pip
    pip_logged vad-wheel "$shared_pip" download --no-deps --only-binary :all: \
        --require-hashes --dest "$work" --requirement "$work/requirements.txt"
    python3 - "$work" <<'PYTHON'
import pathlib, sys, zipfile

work = pathlib.Path(sys.argv[1])
with zipfile.ZipFile(next(work.glob("silero_vad-*.whl"))) as wheel:
    name = next(n for n in wheel.namelist() if n.endswith("/silero_vad_16k_op15.onnx"))
    (work / "silero_vad_16k_op15.onnx").write_bytes(wheel.read(name))
PYTHON
fi

"$test_python" "$root/Tests/scripts/silero_reference.py" --model "$model" --check
"$test_python" "$root/Tests/vad/recordings.py" --model "$model" --output "$work"
build_swift_tests "the Swift tests"
# shellcheck disable=SC2034  # The command of the failed tests.
swift_target=test-vad
PARLEY_VAD_REFERENCE=$work run_swift_tests --filter VoiceActivityRecordingTests
