"""Makes or checks Tests/Fixtures/silero_reference.json: the ONNX model's output for a signal.

The signal is computed in whole numbers only, so that ReferenceSignal.swift of SessionTests makes
exactly the same samples. Change both together.

    python3 Tests/scripts/silero_reference.py --model silero_vad_16k_op15.onnx           # writes
    python3 Tests/scripts/silero_reference.py --model silero_vad_16k_op15.onnx --check   # compares

With UPDATE_GOLDEN=1 in the environment the second writes as well.

Needs numpy and onnxruntime; the model is silero_vad/data/silero_vad_16k_op15.onnx in the wheel of
PyPI silero-vad 6.2.3.
"""

import argparse
import json
import os
import pathlib
import sys

import numpy
import onnxruntime

FIXTURE = pathlib.Path(__file__).resolve().parent.parent / "Fixtures" / "silero_reference.json"
WINDOW = 512
CONTEXT = 64
TOLERANCE = 1e-5
AGAIN = "`UPDATE_GOLDEN=1 make test-vad` writes the fixture anew; review the difference"

# Resonances of four vowels: (2 r cos θ, r²) in 1/16,384 for each formant, at 16 kHz.
VOWELS = [
    [(30_300, -15_750), (27_500, -15_400), (-1_900, -14_900)],
    [(31_900, -15_900), (20_700, -15_500), (10_100, -15_100)],
    [(31_700, -15_850), (30_200, -15_600), (16_000, -15_000)],
    [(31_000, -15_800), (23_400, -15_500), (12_500, -15_000)],
]


class ReferenceSignal:
    """Silence, synthetic vowels, noise and full-scale square waves, one after the other."""

    def __init__(self):
        self.seed = 1
        self.samples = []

    def random(self):
        """A whole number in -32,768…32,767 (Numerical Recipes' generator, its upper half)."""
        self.seed = (self.seed * 1_664_525 + 1_013_904_223) % (1 << 32)
        return (self.seed >> 16) - 32_768

    def add(self, value):
        self.samples.append(max(-32_768, min(32_767, value)))

    def noise(self, count, shift):
        for _ in range(count):
            self.add(self.random() >> shift)

    def square(self, count, half_period):
        for index in range(count):
            self.add(32_767 if index // half_period % 2 == 0 else -32_768)

    def speech(self, count, pitch):
        """Pulses of a falling and rising pitch through the resonances, a vowel every 120 ms."""
        history = [[0, 0] for _ in range(3)]
        phase = 0
        for index in range(count):
            syllable = index // 1_920
            position = index % 1_920
            hertz = pitch + (abs(index % 9_600 - 4_800) >> 7)
            phase += hertz
            pulse = self.random() >> 9
            if phase >= 16_000:
                phase -= 16_000
                pulse += 6_000
            value = (pulse * min(position, 1_920 - position, 256)) >> 8
            for state, (first, second) in zip(history, VOWELS[syllable % len(VOWELS)]):
                value += (first * state[0] + second * state[1]) >> 14
                state[1], state[0] = state[0], value
                value >>= 2
            self.add(value)


def reference_signal():
    signal = ReferenceSignal()
    signal.noise(8_192, 14)
    signal.speech(24_576, 110)
    signal.noise(6_144, 3)
    signal.noise(8_192, 16)
    signal.square(4_096, 40)
    signal.speech(16_384, 190)
    return numpy.array(signal.samples, dtype=numpy.int16)


def probabilities(model, samples):
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    state = numpy.zeros((2, 1, 128), dtype=numpy.float32)
    context = numpy.zeros((1, CONTEXT), dtype=numpy.float32)
    rate = numpy.array(16_000, dtype=numpy.int64)
    result = []
    for start in range(0, len(samples), WINDOW):
        window = samples[start : start + WINDOW].astype(numpy.float32)[None] / 32_768
        frame = numpy.concatenate([context, window], axis=1)
        output, state = session.run(None, {"input": frame, "state": state, "sr": rate})
        context = frame[:, -CONTEXT:]
        result.append(float(output[0, 0]))
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=pathlib.Path, required=True, help="the ONNX file")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments = parser.parse_args()
    samples = reference_signal()
    found = {
        "sampleSum": int(samples.astype(numpy.int64).sum()),
        "probabilities": [round(value, 7) for value in probabilities(arguments.model, samples)],
    }
    if not arguments.check or os.environ.get("UPDATE_GOLDEN") == "1":
        FIXTURE.write_text(json.dumps(found, indent=1) + "\n")
        return
    stored = json.loads(FIXTURE.read_text())
    if stored["sampleSum"] != found["sampleSum"]:
        sys.exit(f"the signal has changed: {AGAIN}")
    pairs = zip(stored["probabilities"], found["probabilities"], strict=True)
    worst = max(abs(left - right) for left, right in pairs)
    if worst > TOLERANCE:
        sys.exit(f"the fixture differs from the model by {worst:.1e}: {AGAIN}")
    print(f"the fixture agrees with the model within {worst:.1e}")


if __name__ == "__main__":
    main()
