// A matrix times vectors, by the widest instructions that the processor has.
//
// Swift compiles for one processor, the oldest that the program shall run on. C can compile a function
// for several and choose at run time, which is all that this module is for. Layers and their meaning are
// in Session's DenseLayer.
#pragma once

#include <stdbool.h>
#include <stddef.h>

/// Outputs per tile of weights: the number of a layer's outputs is a multiple.
#define DENSE_TILE 64
/// Inputs that one pass over the weights serves at most.
#define DENSE_FRAMES 4

/// The instructions that a kernel is compiled for.
typedef enum {
    /// What every processor of the architecture has: SSE2 or NEON, four floats at a time.
    DENSE_BASELINE,
    /// AVX2 and FMA: eight floats at a time.
    DENSE_AVX2,
    /// AVX-512F: sixteen floats at a time.
    DENSE_AVX512,
} dense_kernel;

/// A layer; its memory is the caller's.
typedef struct {
    /// Tile by tile, then input by input, DENSE_TILE outputs each; at a multiple of 64 bytes.
    const float *weights;
    /// One per output.
    const float *bias;
    size_t inputs;
    size_t outputs;
} dense_layer;

/// Whether this processor can run a kernel.
bool dense_kernel_is_available(dense_kernel kernel);

/// Computes bias + weights · input for some frames: frame n reads `inputs` floats from input + n · stride
/// and writes `outputs` floats at output + n · outputs. If `rectified`, negative results become zero.
/// The kernel must be available.
void dense_apply(
    dense_kernel kernel, const dense_layer *layer, const float *input, size_t stride, size_t frames,
    bool rectified, float *output);
