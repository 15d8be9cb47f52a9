"""Turns the package of smart-turn-packages.txt into the file that Parley reads.

    convert_smart_turn.py WHEELS OUTPUT

WHEELS is a folder with the wheel; OUTPUT, an empty folder, receives

    smart-turn.onnx  samples to the probability that the turn is over
    LICENSE          of the package, BSD-2

The model of the package reads Whisper's features of the last 8 s. Here they are nodes of the graph,
so that the server has no signal processing of its own for it:

    input  audio  float [1, 96000]  the last 6 s at 16 kHz, -1…1, zeros before the speech
    output end    float [1, 1]      probability

6 s decide like 8 s at two thirds of the time. The model's position for each 20 ms is a constant, of
which the last 6 s are kept.

The wheel is opened as the zip archive it is: nothing in it is imported or installed.
"""

import hashlib
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MODEL = "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx"
SHA256 = "2bb026316b14a660486a75b1733cd3fbab8c2fd0314dc9af7be49f8cca967e4f"
RATE, SECONDS, WHOLE_SECONDS = 16_000, 6, 8
# Whisper's features: windows of 25 ms every 10 ms, 80 bands up to 8 kHz.
WINDOW, HOP, BANDS = 400, 160, 80
POSITIONS = "inner.encoder.embed_positions.weight"


def main(wheels: Path, output: Path) -> None:
    found = sorted(wheels.glob("pipecat_ai-*.whl"))
    if len(found) != 1:
        raise SystemExit(f"expected one wheel of pipecat_ai, found {len(found)}")
    with zipfile.ZipFile(found[0]) as wheel:
        content = wheel.read(MODEL)
        licence = next(name for name in wheel.namelist() if name.endswith("licenses/LICENSE"))
        (output / "LICENSE").write_bytes(wheel.read(licence))
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise SystemExit("the package has another model")
    model = onnx.load_from_string(content)
    shorten(model.graph)
    put_before(model.graph, *features())
    # The runtime of the server does not know all of the others, and the model uses none of them.
    kept = [o for o in model.opset_import if o.domain in ("", "com.microsoft")]
    del model.opset_import[:]
    model.opset_import.extend(kept)
    onnx.checker.check_model(model)
    onnx.save(model, output / "smart-turn.onnx")


def shorten(graph: onnx.GraphProto) -> None:
    """Has the model read SECONDS instead of WHOLE_SECONDS: it has a position for 20 ms."""
    whole, kept = WHOLE_SECONDS * 50, SECONDS * 50
    changed = set()
    for tensor in graph.initializer:
        values = numpy_helper.to_array(tensor)
        if tensor.name == POSITIONS and len(values) == whole:
            values = values[-kept:]
        elif values.dtype == np.int64 and values.shape == (1,) and values[0] == whole:
            values = np.array([kept])
        else:
            continue
        changed.add(tensor.name == POSITIONS)
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    if changed != {True, False}:
        raise SystemExit("the model has no positions that can be cut")
    del graph.value_info[:]


def put_before(graph: onnx.GraphProto, nodes: list, constants: dict) -> None:
    """Puts the features' nodes before the model's, with names of their own."""
    nodes[-1].output[0] = graph.input[0].name
    nodes += graph.node
    nodes[-1].output[0] = "end"
    del graph.node[:], graph.input[:], graph.output[:]
    graph.node.extend(nodes)
    graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in constants.items())
    samples = [1, RATE * SECONDS]
    graph.input.append(helper.make_tensor_value_info("audio", TensorProto.FLOAT, samples))
    graph.output.append(helper.make_tensor_value_info("end", TensorProto.FLOAT, [1, 1]))


def features() -> tuple[list, dict]:
    """Whisper's features of samples at mean 0 and variance 1. The Fourier transform is a convolution
    with 402 windowed cosines and sines."""
    bins = WINDOW // 2 + 1
    angle = 2 * np.pi * np.outer(np.arange(bins), np.arange(WINDOW)) / WINDOW
    waves = np.concatenate([np.cos(angle), np.sin(angle)]) * np.hanning(WINDOW + 1)[:-1]
    constants = {
        "waves": waves[:, None].astype(np.float32),
        "bands": bands(bins).astype(np.float32),
        "halves": np.array([bins, bins]),
        "edges": np.array([0, 0, WINDOW // 2, 0, 0, WINDOW // 2]),
        "one": np.array([1]),
        "time": np.array([2]),
        "all": np.array([1, 2]),
        "first": np.array([0]),
        "last": np.array([-1]),
        "log 10": np.float32(np.log(10)),
        "four": np.float32(4),
        "eight": np.float32(8),
        "least": np.float32(1e-10),
        "tiny": np.float32(1e-7),
    }
    nodes = []

    def add(operation: str, inputs: list[str], *outputs: str, **attributes) -> None:
        names = [i if i == "audio" else "features/" + i for i in inputs]
        nodes.append(
            helper.make_node(operation, names, ["features/" + o for o in outputs], **attributes)
        )

    add("ReduceMean", ["audio", "one"], "mean")
    add("Sub", ["audio", "mean"], "centred")
    add("Mul", ["centred", "centred"], "squares")
    add("ReduceMean", ["squares", "one"], "variance")
    add("Add", ["variance", "tiny"], "positive")
    add("Sqrt", ["positive"], "deviation")
    add("Div", ["centred", "deviation"], "level")
    add("Unsqueeze", ["level", "one"], "channel")
    add("Pad", ["channel", "edges"], "padded", mode="reflect")
    add("Conv", ["padded", "waves"], "spectra", kernel_shape=[WINDOW], strides=[HOP])
    add("Slice", ["spectra", "first", "last", "time"], "spectrum")
    add("Split", ["spectrum", "halves"], "cosines", "sines", axis=1)
    add("Mul", ["cosines", "cosines"], "squared cosines")
    add("Mul", ["sines", "sines"], "squared sines")
    add("Add", ["squared cosines", "squared sines"], "power")
    add("MatMul", ["bands", "power"], "energies")
    add("Max", ["energies", "least"], "audible")
    add("Log", ["audible"], "natural")
    add("Div", ["natural", "log 10"], "log")
    add("ReduceMax", ["log", "all"], "loudest")
    add("Sub", ["loudest", "eight"], "floor")
    add("Max", ["log", "floor"], "limited")
    add("Add", ["limited", "four"], "raised")
    add("Div", ["raised", "four"], "result")
    return nodes, {"features/" + name: value for name, value in constants.items()}


def bands(bins: int) -> np.ndarray:
    """Triangles of equal area, evenly spaced on Slaney's scale: straight to 1 kHz, then 27 steps for
    each factor of 6.4."""
    top = 15 + 27 * np.log(RATE / 2 / 1000) / np.log(6.4)
    steps = np.linspace(0, top, BANDS + 2)
    edges = np.where(steps < 15, steps * 200 / 3, 1000 * np.exp((steps - 15) * np.log(6.4) / 27))
    hertz = np.linspace(0, RATE / 2, bins)
    rising = (hertz - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - hertz) / np.diff(edges)[1:, None]
    height = 2 / (edges[2:] - edges[:-2])
    return np.maximum(0, np.minimum(rising, falling)) * height[:, None]


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
