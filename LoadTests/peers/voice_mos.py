"""How natural the embedded voices sound to DNSMOS, a net that was trained on people's judgements: from 1
to 5, overall. Prints a table of the voices. Needs the Python environment of `make test-clients`.

    pip download --no-deps speechmos==0.0.1.1 --dest mos
    mkdir sound && .build/release/voice-table --save sound
    .venv-tests/bin/python LoadTests/peers/voice_mos.py mos/speechmos-*.whl sound
"""

import collections
import pathlib
import sys
import zipfile

import numpy
import onnxruntime

RATE = 16_000
# Samples that the net hears at once; shorter sound is repeated.
WINDOW = int(9.01 * RATE)
MODEL = "speechmos/dnsmos_models/sig_bak_ovr.onnx"
# From the net's overall figure to the scale of people's.
SCALE = numpy.poly1d([-0.06766283, 1.11546468, 0.04602535])


def score(net, samples):
    repeated = numpy.tile(samples, -(-WINDOW // len(samples)))
    starts = range(0, len(repeated) - WINDOW + 1, RATE)
    return numpy.mean([
        SCALE(net.run(None, {"input_1": repeated[None, start:start + WINDOW]})[0][0][2])
        for start in starts])


def main():
    wheel, folder = sys.argv[1:]
    net = onnxruntime.InferenceSession(zipfile.ZipFile(wheel).read(MODEL))
    scores = collections.defaultdict(list)
    for path in sorted(pathlib.Path(folder).glob("*.s16")):
        samples = numpy.fromfile(path, "<i2").astype(numpy.float32) / 32_768
        scores[path.stem.split("-")[0]].append(score(net, samples))
    print("| voice | sentences | DNSMOS, overall |\n|---|---|---|")
    for voice, found in scores.items():
        print(f"| {voice} | {len(found)} | {numpy.mean(found):.2f} |")


if __name__ == "__main__":
    main()
