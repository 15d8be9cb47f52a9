// One kernel. dense.c includes this file once for each and defines:
//   DENSE_NAME(part)   a name that no other kernel has
//   DENSE_LANES        floats per vector
//   DENSE_SUMS         vectors of sums that fit into the registers, beside weights and inputs
//
// A pass keeps the sums of some outputs of some frames in registers and reads each weight once for all
// these frames. More frames in a pass mean fewer outputs.

typedef float DENSE_NAME(vector) __attribute__((vector_size(4 * DENSE_LANES), aligned(4), may_alias));

/// The outputs [0, vectors · DENSE_LANES) of a part of a tile; `frames` and `vectors` are constants.
__attribute__((always_inline)) static inline void DENSE_NAME(pass)(
    const float *weights, const float *bias, size_t inputs, const float *input, size_t stride,
    bool rectified, float *output, size_t outputs, size_t frames, size_t vectors)
{
    typedef DENSE_NAME(vector) vector;
    vector sums[DENSE_FRAMES][DENSE_TILE / DENSE_LANES];
#pragma clang loop unroll(full)
    for (size_t frame = 0; frame < frames; frame++)
#pragma clang loop unroll(full)
        for (size_t index = 0; index < vectors; index++)
            sums[frame][index] = ((const vector *)bias)[index];
    for (size_t row = 0; row < inputs; row++) {
        const vector *weight = (const vector *)(weights + row * DENSE_TILE);
#pragma clang loop unroll(full)
        for (size_t frame = 0; frame < frames; frame++) {
            const float value = input[frame * stride + row];
#pragma clang loop unroll(full)
            for (size_t index = 0; index < vectors; index++)
                sums[frame][index] += weight[index] * value;
        }
    }
#pragma clang loop unroll(full)
    for (size_t frame = 0; frame < frames; frame++)
#pragma clang loop unroll(full)
        for (size_t index = 0; index < vectors; index++) {
            vector sum = sums[frame][index];
            if (rectified)
                sum = __builtin_elementwise_max(sum, (vector){0});
            ((vector *)(output + frame * outputs))[index] = sum;
        }
}

/// All outputs of some frames; `frames` is a constant.
__attribute__((always_inline)) static inline void DENSE_NAME(frames)(
    const dense_layer *layer, const float *input, size_t stride, bool rectified, float *output,
    size_t frames)
{
    const size_t whole = DENSE_TILE / DENSE_LANES;
    const size_t vectors = DENSE_SUMS / frames < whole ? DENSE_SUMS / frames : whole;
    for (size_t first = 0; first < layer->outputs; first += vectors * DENSE_LANES) {
        const float *tile = layer->weights + first / DENSE_TILE * DENSE_TILE * layer->inputs;
        DENSE_NAME(pass)(
            tile + first % DENSE_TILE, layer->bias + first, layer->inputs, input, stride, rectified,
            output + first, layer->outputs, frames, vectors);
    }
}

static void DENSE_NAME(apply)(
    const dense_layer *layer, const float *input, size_t stride, size_t frames, bool rectified,
    float *output)
{
    for (; frames >= 4; frames -= 4, input += 4 * stride, output += 4 * layer->outputs)
        DENSE_NAME(frames)(layer, input, stride, rectified, output, 4);
    for (; frames >= 2; frames -= 2, input += 2 * stride, output += 2 * layer->outputs)
        DENSE_NAME(frames)(layer, input, stride, rectified, output, 2);
    if (frames == 1)
        DENSE_NAME(frames)(layer, input, stride, rectified, output, 1);
}
