"""Runs Silero's ONNX model on recordings of people, clean and in pink noise.

    python3 Tests/vad/recordings.py --model silero_vad_16k_op15.onnx --output FOLDER

Writes each signal as 16-bit samples at 16 kHz, and reference.json with the probability of every
window, for VoiceActivityRecordingTests.swift to compare. Needs numpy and onnxruntime.
"""

import argparse
import json
import pathlib
import sys
import wave

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "scripts"))
from silero_reference import WINDOW, probabilities  # noqa: E402

DATA = pathlib.Path("/usr/share/pocketsphinx/test/data")
NOISES = [None, 15, 5]


def recordings():
    """The recordings of Debian's pocketsphinx-testdata, as samples at 16 kHz."""
    for path in sorted(DATA.glob("*.raw")) + sorted(DATA.glob("*/*.wav")):
        if path.suffix == ".raw":
            yield path.stem, numpy.fromfile(path, dtype="<i2")
            continue
        with wave.open(str(path)) as file:
            if file.getframerate() == 16_000 and file.getnchannels() == 1:
                yield path.stem, numpy.frombuffer(file.readframes(file.getnframes()), "<i2")


def pink_noise(count, generator):
    """Noise of 1/f power, made in the frequency domain; its mean square is 1."""
    spectrum = generator.standard_normal(count // 2 + 1) * numpy.exp(
        2j * numpy.pi * generator.random(count // 2 + 1)
    )
    spectrum /= numpy.sqrt(numpy.maximum(numpy.arange(count // 2 + 1), 1))
    noise = numpy.fft.irfft(spectrum, count)
    return noise / numpy.sqrt(numpy.mean(noise**2))


def mixture(samples, decibels, generator):
    """Half a second of silence, the recording, half a second of silence; in noise, if any."""
    pause = numpy.zeros(8_000)
    signal = numpy.concatenate([pause, samples.astype(float), pause])
    if decibels is not None:
        level = numpy.sqrt(numpy.mean(samples.astype(float) ** 2)) * 10 ** (-decibels / 20)
        signal = signal + level * pink_noise(len(signal), generator)
    whole = len(signal) // WINDOW * WINDOW
    return numpy.clip(numpy.round(signal[:whole]), -32_768, 32_767).astype("<i2")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=pathlib.Path, required=True, help="the ONNX file")
    parser.add_argument("--output", type=pathlib.Path, required=True, help="a folder")
    arguments = parser.parse_args()
    generator = numpy.random.default_rng(1)
    reference = []
    for name, samples in recordings():
        for decibels in NOISES:
            signal = mixture(samples, decibels, generator)
            file = f"{name}-{'clean' if decibels is None else decibels}.s16"
            (arguments.output / file).write_bytes(signal.tobytes())
            reference.append(
                {"file": file, "probabilities": probabilities(arguments.model, signal)}
            )
    if not reference:
        sys.exit(f"no recordings in {DATA}: apt-get install pocketsphinx-testdata")
    (arguments.output / "reference.json").write_text(json.dumps(reference))
    windows = sum(len(entry["probabilities"]) for entry in reference)
    print(f"the ONNX model was asked about {len(reference)} signals, {windows} windows")


if __name__ == "__main__":
    main()
