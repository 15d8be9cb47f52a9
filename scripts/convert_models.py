"""Turns the packages of models-packages.txt into the files that Parley reads.

    convert_models.py WHEELS OUTPUT

WHEELS is a folder of wheels; OUTPUT, an empty folder, receives

    silero_vad.bin               weights of the voice activity model, see `convert_silero`
    moonshine-base-en/           encoder.onnx, decoder.onnx, tokens.txt
    sherpa-onnx/lib              the ONNX runtime
    licenses/                    the licence of each part, as its package states it

Wheels are opened as the zip archives they are: nothing in them is imported or installed. This
script only writes into OUTPUT; setup-models.sh moves the result into place. Every conversion
is checked here before it counts, so that a broken model is a failed set-up and not a server
that mishears.
"""

import base64
import struct
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy
import moonshine_graphs
import onnx
import onnxruntime
from onnx import numpy_helper

SILERO_MAGIC = b"SILERO01"
# Four convolutions, an LSTM of 128 and one output behind a fixed Fourier basis, 258 x 256.
SILERO_FLOATS = 309_633
MOONSHINE_TOKENS = 32_000


def main(wheels: Path, output: Path) -> None:
    convert_silero(open_wheel(wheels, "silero_vad"), output / "silero_vad.bin")
    convert_moonshine(open_wheel(wheels, "moonshine_cpp"), output / "moonshine-base-en")
    copy_runtime(open_wheel(wheels, "sherpa_onnx_core"), output / "sherpa-onnx" / "lib")
    for name in ("silero_vad", "moonshine_cpp", "sherpa_onnx_core"):
        copy_licence(open_wheel(wheels, name), output / "licenses" / f"{name}.txt")


def open_wheel(wheels: Path, name: str) -> zipfile.ZipFile:
    found = sorted(wheels.glob(f"{name}-*.whl"))
    if len(found) != 1:
        raise SystemExit(f"expected one wheel of {name}, found {len(found)}")
    return zipfile.ZipFile(found[0])


def read_member(wheel: zipfile.ZipFile, suffix: str) -> bytes:
    """The one file whose path ends in `suffix`: its folder differs with how a wheel was made."""
    found = [name for name in wheel.namelist() if name.endswith(suffix)]
    if len(found) != 1:
        raise SystemExit(f"{wheel.filename}: expected one {suffix}, found {len(found)}")
    return wheel.read(found[0])


def copy_licence(wheel: zipfile.ZipFile, target: Path) -> None:
    """The licence file, or the metadata that names the licence where a wheel ships no text."""
    target.parent.mkdir(exist_ok=True)
    texts = [name for name in wheel.namelist() if name.rsplit("/", 1)[-1] == "LICENSE"]
    target.write_bytes(wheel.read(texts[0]) if texts else read_member(wheel, "/METADATA"))


# Silero ------------------------------------------------------------------------------------


def convert_silero(wheel: zipfile.ZipFile, target: Path) -> None:
    """Writes the weights as one flat array: the magic, the number of floats as a 32-bit
    little-endian integer, then the floats, little-endian, in the order the signal meets them:
    Fourier basis, four convolutions (weight, bias), LSTM (input and hidden weights, then their
    biases), output weight and bias."""
    model = onnx.load_from_string(read_member(wheel, "/silero_vad_16k_op15.onnx"))
    tensors = constant_tensors(model)
    order = ["model.stft.forward_basis_buffer"]
    for layer in range(4):
        prefix = f"model.encoder.{layer}.reparam_conv"
        order += [f"{prefix}.weight", f"{prefix}.bias"]
    order += [f"model.decoder.rnn.{part}" for part in ("weight_ih", "weight_hh")]
    order += [f"model.decoder.rnn.{part}" for part in ("bias_ih", "bias_hh")]
    order += [f"model.decoder.decoder.2.{part}" for part in ("weight", "bias")]

    floats = b"".join(tensors[name].astype("<f4").tobytes() for name in order)
    count = len(floats) // 4
    if count != SILERO_FLOATS:
        raise SystemExit(f"silero: {count} weights instead of {SILERO_FLOATS}")
    if not numpy.isfinite(numpy.frombuffer(floats, "<f4")).all():
        raise SystemExit("silero: a weight is not a finite number")
    target.write_bytes(SILERO_MAGIC + struct.pack("<I", count) + floats)


def constant_tensors(model: onnx.ModelProto) -> dict[str, numpy.ndarray]:
    """Initialisers and the outputs of Constant nodes: the model keeps weights in both."""
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type != "Constant":
            continue
        for attribute in node.attribute:
            if attribute.name == "value":
                tensors[node.output[0]] = numpy_helper.to_array(attribute.t)
    return tensors


# Moonshine ---------------------------------------------------------------------------------


def convert_moonshine(wheel: zipfile.ZipFile, target: Path) -> None:
    """The package ships onnxruntime's .ort format, with weights that are widened to floats at every
    run. Of its weights, graphs are made that suit this server (moonshine_graphs.py)."""
    target.mkdir()
    own = moonshine_graphs.Weights(read_graph(wheel, "encoder_model"))
    of_decoder = moonshine_graphs.Weights(read_graph(wheel, "decoder_model_merged"))
    moonshine_graphs.encoder(own, of_decoder).save(target / "encoder.onnx")
    moonshine_graphs.decoder(of_decoder).save(target / "decoder.onnx")
    write_tokens(read_member(wheel, "/base-en/tokenizer.bin"), target / "tokens.txt")
    check_moonshine(target)


def read_graph(wheel: zipfile.ZipFile, name: str) -> onnx.ModelProto:
    """onnxruntime itself is the converter: it writes the graph it has loaded."""
    levels = onnxruntime.GraphOptimizationLevel
    with tempfile.TemporaryDirectory() as scratch:
        plain, folded = Path(scratch) / "plain.onnx", Path(scratch) / "folded.onnx"
        save_as_onnx(read_member(wheel, f"/base-en/{name}.ort"), plain, levels.ORT_DISABLE_ALL)
        name_graphs(plain, name)
        # The basic level folds "quantised constant, then dequantise" into plain float weights.
        save_as_onnx(str(plain), folded, levels.ORT_ENABLE_BASIC)
        return onnx.load(folded)


def save_as_onnx(source: bytes | str, target: Path, level) -> None:
    options = session_options()
    options.graph_optimization_level = level
    options.optimized_model_filepath = str(target)
    options.add_session_config_entry("session.save_model_format", "ONNX")
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def name_graphs(path: Path, name: str) -> None:
    """The .ort format drops the names of graphs; the ONNX checker insists on them."""
    model = onnx.load(path)
    model.graph.name = model.graph.name or name
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g") and not attribute.g.name:
                attribute.g.name = attribute.name
    onnx.save(model, path)


def session_options() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # Errors only: its advice on optimisation is not for us.
    return options


def write_tokens(packed: bytes, target: Path) -> None:
    """From length-prefixed tokens (one byte, or two when the first is 128 or more: low part
    first, in units of 128) to a line for each token, its bytes in hexadecimal."""
    lines = []
    position = 0
    while position < len(packed):
        length = packed[position]
        position += 1
        if length >= 128:
            length += (packed[position] - 1) * 128
            position += 1
        lines.append(f"{packed[position : position + length].hex()}\n")
        position += length
    if len(lines) != MOONSHINE_TOKENS or position != len(packed):
        raise SystemExit(f"moonshine: {len(lines)} tokens instead of {MOONSHINE_TOKENS}")
    target.write_text("".join(lines))


def check_moonshine(folder: Path) -> None:
    """Runs one second of a tone through encoder and decoder: the result must be finite numbers."""
    encoder, decoder = (
        onnxruntime.InferenceSession(
            str(folder / name), session_options(), providers=["CPUExecutionProvider"])
        for name in ("encoder.onnx", "decoder.onnx"))
    seconds = numpy.arange(16_000, dtype=numpy.float32) / 16_000
    tone = (0.1 * numpy.sin(2 * numpy.pi * 440 * seconds)).astype(numpy.float32)
    heard = encoder.run(None, {"samples": tone[None, :]})
    inputs = dict(zip((output.name for output in encoder.get_outputs()), heard))
    for declared in decoder.get_inputs():
        if declared.name.startswith("past_"):
            inputs[declared.name] = numpy.zeros((1, 8, 0, 52), numpy.float32)
    inputs["tokens"] = numpy.array([[1]])
    logits = decoder.run(["logits"], inputs)[0]
    if logits.shape != (1, 1, moonshine_graphs.TOKENS) or not numpy.isfinite(logits).all():
        raise SystemExit(f"moonshine: the decoder returned {logits.shape} or not-a-number")


# sherpa-onnx -------------------------------------------------------------------------------


def copy_runtime(wheel: zipfile.ZipFile, target: Path) -> None:
    """The ONNX runtime alone, of the libraries in the package."""
    target.mkdir(parents=True)
    name = "libonnxruntime.so"
    (target / name).write_bytes(read_member(wheel, f"/lib/{name}"))
    (target / name).chmod(0o755)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
