// The kernels of dense.h: one text, compiled for several processors.

#include "dense.h"

// Sixteen registers: eight sums leave room for weights and inputs.
#define DENSE_NAME(part) baseline_##part
#define DENSE_LANES 4
#define DENSE_SUMS 8
#include "dense_variant.h"
#undef DENSE_NAME
#undef DENSE_LANES
#undef DENSE_SUMS

#if defined(__x86_64__)

#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#define DENSE_NAME(part) avx2_##part
#define DENSE_LANES 8
#define DENSE_SUMS 8
#include "dense_variant.h"
#undef DENSE_NAME
#undef DENSE_LANES
#undef DENSE_SUMS
#pragma clang attribute pop

// Thirty-two registers.
#pragma clang attribute push(__attribute__((target("avx512f"))), apply_to = function)
#define DENSE_NAME(part) avx512_##part
#define DENSE_LANES 16
#define DENSE_SUMS 16
#include "dense_variant.h"
#pragma clang attribute pop

bool dense_kernel_is_available(dense_kernel kernel)
{
    switch (kernel) {
    case DENSE_BASELINE: return true;
    case DENSE_AVX2: return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case DENSE_AVX512: return __builtin_cpu_supports("avx512f");
    }
    return false;
}

void dense_apply(
    dense_kernel kernel, const dense_layer *layer, const float *input, size_t stride, size_t frames,
    bool rectified, float *output)
{
    switch (kernel) {
    case DENSE_BASELINE: return baseline_apply(layer, input, stride, frames, rectified, output);
    case DENSE_AVX2: return avx2_apply(layer, input, stride, frames, rectified, output);
    case DENSE_AVX512: return avx512_apply(layer, input, stride, frames, rectified, output);
    }
}

#else

bool dense_kernel_is_available(dense_kernel kernel)
{
    return kernel == DENSE_BASELINE;
}

void dense_apply(
    dense_kernel kernel, const dense_layer *layer, const float *input, size_t stride, size_t frames,
    bool rectified, float *output)
{
    (void)kernel;
    baseline_apply(layer, input, stride, frames, rectified, output);
}

#endif
