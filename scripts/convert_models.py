"""Turns the packages of models-packages.txt into the files that Parley reads.

    convert_models.py WHEELS OUTPUT

WHEELS is a folder of wheels; OUTPUT, an empty folder, receives

    silero_vad.bin               weights of the voice activity model, see `convert_silero`
    moonshine-base-en/           encoder_model.onnx, decoder_model_merged.onnx, tokens.txt
    sherpa-onnx/{include,lib}    the C header and the two libraries it needs at run time
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
import onnx
import onnxruntime
from onnx import numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

SILERO_MAGIC = b"SILERO01"
# Four convolutions, an LSTM of 128 and one output behind a fixed Fourier basis, 258 x 256.
SILERO_FLOATS = 309_633
MOONSHINE_TOKENS = 32_000


def main(wheels: Path, output: Path) -> None:
    convert_silero(open_wheel(wheels, "silero_vad"), output / "silero_vad.bin")
    convert_moonshine(open_wheel(wheels, "moonshine_cpp"), output / "moonshine-base-en")
    copy_sherpa(open_wheel(wheels, "sherpa_onnx_core"), output / "sherpa-onnx")
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
    """The package ships onnxruntime's .ort format with weights that are widened to floats again
    at every run: thirteen times the CPU and three times the memory of integer products."""
    target.mkdir()
    for name in ("encoder_model", "decoder_model_merged"):
        source = read_member(wheel, f"/base-en/{name}.ort")
        with tempfile.TemporaryDirectory(dir=target) as scratch:
            convert_graph(source, name, Path(scratch), target / f"{name}.onnx")
    write_tokens(read_member(wheel, "/base-en/tokenizer.bin"), target / "tokens.txt")
    check_encoder(target / "encoder_model.onnx")
    check_loads(target / "decoder_model_merged.onnx")


def convert_graph(source: bytes, name: str, scratch: Path, target: Path) -> None:
    plain, folded = scratch / "plain.onnx", scratch / "folded.onnx"
    save_as_onnx(source, plain, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    name_graphs(plain, name)
    # The basic level folds "quantised constant, then dequantise" into plain float weights,
    # which is the form that quantize_dynamic starts from.
    save_as_onnx(str(plain), folded, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC)
    drop_unused_opsets(folded)
    quantize_dynamic(
        folded,
        target,
        weight_type=QuantType.QInt8,
        op_types_to_quantize=["MatMul"],
        per_channel=True,
        # Weights of seven bits: processors without VNNI add two products in 16 bits, which those of
        # eight bits overflow. The recogniser then mistook 17 to 20 of 86 words of test_speech.py.
        reduce_range=True,
        # The decoder's layers sit in the two branches of an If, hence the subgraphs; products
        # of two activations (attention) have no constant weights and stay in floats.
        extra_options={"EnableSubgraph": True, "MatMulConstBOnly": True},
    )


def save_as_onnx(source: bytes | str, target: Path, level) -> None:
    """onnxruntime itself is the converter: it writes the graph it has loaded and optimised."""
    options = session_options()
    options.graph_optimization_level = level
    options.optimized_model_filepath = str(target)
    options.add_session_config_entry("session.save_model_format", "ONNX")
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def session_options() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # Errors only: its advice on optimisation is not for us.
    return options


def name_graphs(path: Path, name: str) -> None:
    """The .ort format drops the names of graphs; the ONNX checker insists on them."""
    model = onnx.load(path)
    model.graph.name = model.graph.name or name
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g") and not attribute.g.name:
                attribute.g.name = attribute.name
    onnx.save(model, path)


def drop_unused_opsets(path: Path) -> None:
    """onnxruntime declares every domain it knows, its training operators too, and other builds
    of it refuse a model that declares a domain they lack."""
    model = onnx.load(path)
    kept = [opset for opset in model.opset_import if opset.domain in ("", "com.microsoft")]
    del model.opset_import[:]
    model.opset_import.extend(kept)
    onnx.save(model, path)


def write_tokens(packed: bytes, target: Path) -> None:
    """From length-prefixed tokens (one byte, or two when the first is 128 or more: low part
    first, in units of 128) to sherpa-onnx's lines of base64, tab, index."""
    lines = []
    position = 0
    while position < len(packed):
        length = packed[position]
        position += 1
        if length >= 128:
            length += (packed[position] - 1) * 128
            position += 1
        token = packed[position : position + length]
        lines.append(f"{base64.b64encode(token).decode()}\t{len(lines)}\n")
        position += length
    if len(lines) != MOONSHINE_TOKENS or position != len(packed):
        raise SystemExit(f"moonshine: {len(lines)} tokens instead of {MOONSHINE_TOKENS}")
    target.write_text("".join(lines))


def check_loads(path: Path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(
        str(path), session_options(), providers=["CPUExecutionProvider"]
    )


def check_encoder(path: Path) -> None:
    """Runs one second of a tone through the encoder: the result must be finite numbers."""
    session = check_loads(path)
    seconds = numpy.arange(16_000, dtype=numpy.float32) / 16_000
    tone = (0.1 * numpy.sin(2 * numpy.pi * 440 * seconds)).astype(numpy.float32)
    inputs = {}
    for declared in session.get_inputs():
        is_audio = declared.type == "tensor(float)"
        inputs[declared.name] = tone[None, :] if is_audio else numpy.array([16_000], "i4")
    features = session.run(None, inputs)[0]
    if features.ndim != 3 or not numpy.isfinite(features).all():
        raise SystemExit(f"moonshine: the encoder returned {features.shape} or not-a-number")


# sherpa-onnx -------------------------------------------------------------------------------


def copy_sherpa(wheel: zipfile.ZipFile, target: Path) -> None:
    """The C API alone: header, library, and the onnxruntime that the library links to."""
    include = target / "include" / "sherpa-onnx" / "c-api"
    library = target / "lib"
    include.mkdir(parents=True)
    library.mkdir()
    (include / "c-api.h").write_bytes(read_member(wheel, "/c-api/c-api.h"))
    for name in ("libsherpa-onnx-c-api.so", "libonnxruntime.so"):
        (library / name).write_bytes(read_member(wheel, f"/lib/{name}"))
        (library / name).chmod(0o755)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
