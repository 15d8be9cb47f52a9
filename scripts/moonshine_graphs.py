"""Moonshine base as two graphs of the ONNX runtime, made of the weights of the package's own graphs.

    encoder.onnx   samples [1, n] at 16 kHz -> cross_key_L, cross_value_L [1, 8, frames, 52], which the
                   decoder's layer L attends to; a frame is 384 samples
    decoder.onnx   tokens [1, n], cross_…, past_key_L, past_value_L [1, 8, p, 52] of the p tokens before
                   -> logits [1, n, 32768] and new_key_L, new_value_L [1, 8, p + n, 52]

The package's decoder has its layers twice, in the branches of an If, and some thousand nodes, which
take as long as the products. Here the runtime's own operators do rotation, attention and norms in
164 nodes. Several tokens at once are checked in one run, so that the tokens of an earlier hypothesis
cost little.

Weights are of eight bits. Those of the decoder have a scale for each 64 inputs, and its activations
one for each token (MatMulNBits): a token's result does not depend on the tokens beside it. Those of
the encoder have a scale for each output, and of seven bits only: processors without VNNI add two
products in 16 bits, which eight bits overflow. The third convolution stays in floats: its input
has outliers of fifty times the usual size, whose scale would leave nothing of the rest.
"""

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS, HEADS, HEAD_SIZE, WIDTH, WIDE, TOKENS = 8, 8, 52, 416, 1664, 32_768
# Frames of 30 s, the longest audio that the model was trained on, and tokens of it.
MOST_FRAMES, MOST_TOKENS = 1_280, 256
BLOCK = 64
EPSILON = 1e-5
RUNTIME_DOMAIN = "com.microsoft"
END = numpy.iinfo(numpy.int64).max


class Weights:
    """The constants of a graph by their names, and of its products by the names of these."""

    def __init__(self, model: onnx.ModelProto):
        self.tensors, self.factors = {}, {}
        self._read(model.graph)

    def _read(self, graph: onnx.GraphProto) -> None:
        self.tensors |= {tensor.name: tensor for tensor in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant":
                self.tensors[node.output[0]] = node.attribute[0].t
            if node.op_type == "MatMul":
                self.factors[node.name] = node.input[1]
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    self._read(attribute.g)

    def __getitem__(self, part: str) -> numpy.ndarray:
        """The one constant whose name contains `part`."""
        found = [name for name in self.tensors if part in name]
        if len(found) != 1:
            raise SystemExit(f"moonshine: expected one constant {part}, found {len(found)}")
        return numpy_helper.to_array(self.tensors[found[0]])

    def factor(self, *products: str) -> numpy.ndarray:
        """The constant factors of products, side by side."""
        names = [self.factors[f"{product}/MatMul"] for product in products]
        return numpy.concatenate(
            [numpy_helper.to_array(self.tensors[name]) for name in names], axis=1)


class Graph:
    """A graph in the making. Each method adds nodes and returns the name of their output."""

    def __init__(self, name: str, of_many: bool):
        """`of_many`: whether it mostly runs on many vectors at once."""
        self.name, self.of_many = name, of_many
        self.nodes, self.constants, self.inputs, self.outputs = [], [], [], []

    def constant(self, values) -> str:
        name = f"constant_{len(self.constants)}"
        values = numpy.ascontiguousarray(values)
        self.constants.append(numpy_helper.from_array(values, name))
        return name

    def add(self, kind: str, *inputs: str, outputs=1, own=False, **attributes):
        """A node. `outputs` are names or their number; `own`: an operator of the runtime."""
        if isinstance(outputs, int):
            outputs = [f"{kind}_{len(self.nodes)}_{index}" for index in range(outputs)]
        self.nodes.append(helper.make_node(
            kind, list(inputs), outputs, domain=RUNTIME_DOMAIN if own else "", **attributes))
        return outputs[0] if len(outputs) == 1 else outputs

    def declare(self, where: list, name: str, shape: list, kind=TensorProto.FLOAT) -> None:
        where.append(helper.make_tensor_value_info(name, kind, shape))

    def slice(self, x: str, begin: int, end: int, axis=0, step=1) -> str:
        return self.add("Slice", x, *(self.constant([v]) for v in (begin, end, axis, step)))

    def length(self, x: str, axis: int) -> str:
        return self.slice(self.add("Shape", x), axis, axis + 1)

    def norm(self, x: str, scale: numpy.ndarray) -> str:
        if not self.of_many:
            return self.add(
                "LayerNormalization", x, self.constant(scale), axis=-1, epsilon=EPSILON)
        # The runtime's own norm (1.28) takes 2 µs a vector, these operators half of it.
        x = self.add("Sub", x, self.add("ReduceMean", x, axes=[-1]))
        size, epsilon = (self.constant(numpy.float32(v)) for v in (1 / WIDTH, EPSILON))
        variance = self.add("Mul", self.add("ReduceSumSquare", x, axes=[-1]), size)
        deviation = self.add("Sqrt", self.add("Add", variance, epsilon))
        return self.add("Mul", self.add("Div", x, deviation), self.constant(scale))

    def sum_and_norm(self, x: str, y: str, scale: numpy.ndarray):
        """The norm of a sum, and the sum."""
        total = self.add("Add", x, y)
        return self.norm(total, scale), total

    def product(self, x: str, factor: numpy.ndarray, bias=None) -> str:
        """With weights of seven bits, a scale for each output."""
        scale = numpy.maximum(abs(factor).max(axis=0), 1e-9) / 63
        weights = numpy.rint(factor / scale).astype(numpy.int8)
        inputs = [x, self.constant(weights), self.constant(scale.astype(numpy.float32)), ""]
        if bias is not None:
            inputs.append(self.constant(bias))
        return self.add("DynamicQuantizeMatMul", *inputs, own=True)

    def block_product(self, x: str, blocks: "Blocks", outputs=1) -> str:
        """With weights of eight bits, a scale for each block of inputs."""
        return self.add(
            "MatMulNBits", x, blocks.weights, blocks.scales, own=True, outputs=outputs,
            K=blocks.inputs, N=blocks.outputs, bits=8, block_size=BLOCK, accuracy_level=4)

    def rotary(self, x: str, positions: str, tables: list[str], size: int) -> str:
        return self.add("RotaryEmbedding", x, positions, *tables, own=True, interleaved=1,
                        num_heads=HEADS, rotary_embedding_dim=size)

    def attention(self, *inputs: str, outputs=1, **attributes):
        return self.add("MultiHeadAttention", *inputs, own=True, outputs=outputs,
                        num_heads=HEADS, scale=HEAD_SIZE**-0.5, **attributes)

    def save(self, path) -> None:
        graph = helper.make_graph(
            self.nodes, self.name, self.inputs, self.outputs, self.constants)
        domains = [helper.make_opsetid("", 17), helper.make_opsetid(RUNTIME_DOMAIN, 1)]
        onnx.save(helper.make_model(graph, opset_imports=domains, ir_version=8), path)


class Blocks:
    """A constant factor as MatMulNBits reads it: of eight bits around 128, output by output, in
    blocks of inputs, the last one filled up."""

    def __init__(self, graph: Graph, factor: numpy.ndarray):
        self.inputs, self.outputs = factor.shape
        count = -(-self.inputs // BLOCK)
        padded = numpy.zeros((self.outputs, count * BLOCK), numpy.float32)
        padded[:, : self.inputs] = factor.T
        padded = padded.reshape(self.outputs, count, BLOCK)
        scales = numpy.maximum(abs(padded).max(axis=2), 1e-9) / 127
        weights = numpy.rint(padded / scales[:, :, None]) + 128
        self.weights = graph.constant(weights.astype(numpy.uint8))
        self.scales = graph.constant(scales.astype(numpy.float32).reshape(-1))


def rotation_tables(frequencies: numpy.ndarray, positions: int):
    """Cosines and sines by position and frequency."""
    angles = numpy.arange(positions)[:, None] * frequencies.astype(float).reshape(1, -1)
    return numpy.cos(angles).astype(numpy.float32), numpy.sin(angles).astype(numpy.float32)


def names(kind: str, layer: int) -> tuple[str, str]:
    return f"{kind}_key_{layer}", f"{kind}_value_{layer}"


def encoder(own: Weights, of_decoder: Weights) -> Graph:
    graph = Graph("encoder", of_many=True)
    graph.declare(graph.inputs, "samples", [1, "n"])
    x = graph_of_audio(graph, own)
    frames = graph.add("Squeeze", graph.length(x, 1))
    positions = graph.add("Unsqueeze", graph.add(
        "Range", graph.constant(0), frames, graph.constant(1)), graph.constant([0]))
    frequencies = own["/rotary_emb/Cast_1_output_0"]
    tables = [graph.constant(table) for table in rotation_tables(frequencies, MOST_FRAMES)]
    norms = [own[f"layers.{layer}.input_layernorm.weight"] for layer in range(LAYERS)]
    norms.append(own["layer_norm.weight"])
    y = graph.norm(x, norms[0])
    for layer in range(LAYERS):
        at = f"/layers.{layer}"
        factor = own.factor(*(f"{at}/self_attn/{part}_proj" for part in "qkv"))
        query, key, value = graph.add("Split", graph.product(y, factor),
                                      graph.constant([WIDTH] * 3), outputs=3, axis=2)
        query, key = (
            graph.rotary(part, positions, tables, 2 * frequencies.size) for part in (query, key))
        heard = graph.product(
            graph.attention(query, key, value), own.factor(f"{at}/self_attn/dense"))
        y, x = graph.sum_and_norm(x, heard, own[f"layers.{layer}.post_attention_layernorm.weight"])
        wide = graph.add("Gelu", graph.product(
            y, own.factor(f"{at}/mlp/fc1"), own[f"layers.{layer}.mlp.fc1.bias"]), own=True)
        narrow = graph.product(
            wide, own.factor(f"{at}/mlp/fc2"), own[f"layers.{layer}.mlp.fc2.bias"])
        y, x = graph.sum_and_norm(x, narrow, norms[layer + 1])
    for layer in range(LAYERS):
        for name, part in zip(names("cross", layer), "kv"):
            heads = graph.add("Reshape", graph.product(
                y, of_decoder.factor(f"/model/decoder/layers.{layer}/encoder_attn/{part}_proj")),
                graph.constant([0, 0, HEADS, HEAD_SIZE]))
            graph.add("Transpose", heads, outputs=[name], perm=[0, 2, 1, 3])
            graph.declare(graph.outputs, name, [1, HEADS, "frames", HEAD_SIZE])
    return graph


def graph_of_audio(graph: Graph, own: Weights) -> str:
    """Samples to frames: three convolutions. The norm behind the first is over all of the audio."""
    x = graph.add("Unsqueeze", "samples", graph.constant([1]))
    x = graph.add("Conv", x, graph.constant(own["conv1.weight"]), strides=[64])
    x = graph.add("Transpose", graph.add("Tanh", x), perm=[0, 2, 1])
    shape = graph.add("Shape", x)
    x = graph.add("Reshape", x, graph.constant([0, 1, -1]))
    one, zero = (graph.constant(numpy.full(1, value, numpy.float32)) for value in (1, 0))
    x = graph.add("InstanceNormalization", x, one, zero, epsilon=EPSILON)
    x = graph.add("Reshape", x, shape)
    # The second as a product of seven frames side by side, with integer weights. Loud channels are
    # made quieter, and their weights larger: one scale for all of them then loses less.
    gain, offset = (own[part].reshape(-1) for part in ("onnx::Mul_1942", "onnx::Add_1943"))
    loudness = numpy.maximum(abs(gain), 1e-3) ** numpy.float32(0.25)
    x = graph.add("Mul", x, graph.constant(gain / loudness))
    x = graph.add("Add", x, graph.constant(offset / loudness))
    weight = own["conv2.weight"] * loudness[None, :, None]
    frames = [graph.slice(x, j, END if j == 6 else j - 6, axis=1, step=3) for j in range(7)]
    factor = weight.transpose(2, 1, 0).reshape(-1, weight.shape[0])
    x = graph.product(graph.add("Concat", *frames, axis=2), factor, own["conv2.bias"])
    x = graph.add("Transpose", graph.add("Gelu", x, own=True), perm=[0, 2, 1])
    x = graph.add("Conv", x, graph.constant(own["conv3.weight"]),
                  graph.constant(own["conv3.bias"]), strides=[2])
    return graph.add("Transpose", graph.add("Gelu", x, own=True), perm=[0, 2, 1])


def decoder(own: Weights) -> Graph:
    graph = Graph("decoder", of_many=False)
    graph.declare(graph.inputs, "tokens", [1, "n"], TensorProto.INT64)
    head = Blocks(graph, own["embed_tokens.weight_transposed"])
    x = embedding(graph, head)
    past, count = graph.length("past_key_0", 2), graph.length("tokens", 1)
    limits = (graph.add("Squeeze", end) for end in (past, graph.add("Add", past, count)))
    positions = graph.add(
        "Unsqueeze", graph.add("Range", *limits, graph.constant(1)), graph.constant([0]))
    frequencies = own["rotary_emb/Cast_1_output_0"]
    tables = [graph.constant(table) for table in rotation_tables(frequencies, MOST_TOKENS)]
    norms = [own[f"decoder.layers.{layer}.input_layernorm.weight"] for layer in range(LAYERS)]
    norms.append(own["decoder.norm.weight"])
    y = graph.norm(x, norms[0])
    for layer in range(LAYERS):
        y, x = decoder_layer(graph, own, layer, (y, x), norms[layer + 1], positions, [
            *tables, 2 * frequencies.size])
    graph.block_product(y, head, outputs=["logits"])
    graph.declare(graph.outputs, "logits", [1, "n", TOKENS])
    return graph


def embedding(graph: Graph, head: Blocks) -> str:
    """The tokens' vectors, out of the weights with which tokens are chosen: they are the same."""
    weights = graph.add("Cast", graph.add("Gather", head.weights, "tokens"), to=TensorProto.FLOAT)
    centred = graph.add("Sub", weights, graph.constant(numpy.float32(128)))
    rows = graph.add("Reshape", head.scales, graph.constant([TOKENS, -1, 1]))
    blocks = graph.add("Mul", centred, graph.add("Gather", rows, "tokens"))
    return graph.slice(graph.add("Reshape", blocks, graph.constant([0, 0, -1])), 0, WIDTH, axis=2)


def decoder_layer(graph: Graph, own: Weights, layer: int, state, scale, positions, rotation):
    """A layer; `state` and the result are the normed vectors, and the vectors."""
    (y, x), (*tables, size) = state, rotation
    at, name = f"/model/decoder/layers.{layer}", f"decoder.layers.{layer}"
    cross, past, new = (names(kind, layer) for kind in ("cross", "past", "new"))
    for kind, pair in (("frames", cross), ("p", past)):
        for part in pair:
            graph.declare(graph.inputs, part, [1, HEADS, kind, HEAD_SIZE])
    for part in new:
        graph.declare(graph.outputs, part, [1, HEADS, "p + n", HEAD_SIZE])

    def product(x: str, *parts: str) -> str:
        return graph.block_product(x, Blocks(graph, own.factor(*(f"{at}/{p}" for p in parts))))

    joined = product(y, *(f"self_attn/{part}_proj" for part in "qkv"))
    query, key, value = graph.add(
        "Split", joined, graph.constant([WIDTH] * 3), outputs=3, axis=2)
    query, key = (graph.rotary(part, positions, tables, size) for part in (query, key))
    said, *_ = graph.attention(query, key, value, "", "", "", *past, unidirectional=1,
                               outputs=[f"said_{layer}", *new])
    y, x = graph.sum_and_norm(
        x, product(said, "self_attn/dense"), own[f"{name}.post_attention_layernorm.weight"])
    heard = graph.attention(product(y, "encoder_attn/q_proj"), *cross)
    y, x = graph.sum_and_norm(
        x, product(heard, "encoder_attn/dense"), own[f"{name}.final_layernorm.weight"])
    wide = graph.add(
        "Add", product(y, "mlp/up_proj"), graph.constant(own[f"{name}.mlp.up_proj.bias"]))
    wide, gate = graph.add("Split", wide, graph.constant([WIDE] * 2), outputs=2, axis=2)
    wide = graph.add("Mul", wide, graph.add("QuickGelu", gate, own=True, alpha=1.0))
    narrow = graph.add(
        "Add", product(wide, "mlp/down_proj"), graph.constant(own[f"{name}.mlp.down_proj.bias"]))
    return graph.sum_and_norm(x, narrow, scale)
