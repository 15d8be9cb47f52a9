"""Human speech for measurements: Debian's pocketsphinx-testdata at 24 kHz."""

import pathlib
import wave

RECORDINGS = pathlib.Path("/usr/share/pocketsphinx/test/data/librivox")
RATE = 24_000


def speech(seconds):
    """So many seconds of it, as 16-bit samples; the recordings begin anew where they end."""
    samples = []
    while len(samples) < 16_000 * seconds:
        for path in sorted(RECORDINGS.glob("*.wav")):
            with wave.open(str(path)) as recording:
                samples += memoryview(recording.readframes(recording.getnframes())).cast("h")
    samples = samples[: 16_000 * seconds]
    # Linear interpolation: two samples become three.
    output = bytearray()
    for first, second, third in zip(samples[0::2], samples[1::2], samples[2::2] + [0]):
        for value in (first, (first + 2 * second) // 3, (2 * second + third) // 3):
            output += value.to_bytes(2, "little", signed=True)
    return bytes(output)
