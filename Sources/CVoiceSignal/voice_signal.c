// The kernels of voice_signal.h: one text, compiled for several processors.

#include "voice_signal.h"

#include <math.h>
#include <string.h>

#define VOICE_NAME(part) baseline_##part
#define VOICE_LANES 4
#include "voice_variant.h"
#undef VOICE_NAME
#undef VOICE_LANES

void voice_fill_tables(voice_tables *tables)
{
    for (int index = 0; index < VOICE_WINDOW; index++) {
        const double angle = 2 * M_PI * index / VOICE_WINDOW;
        const double hann = 0.5 - 0.5 * cos(angle);
        tables->cosine[index] = (float)cos(angle);
        tables->sine[index] = (float)-sin(angle);
        tables->analysis[index] = (float)(hann / VOICE_HOP);
        tables->synthesis[index] = (float)(hann / VOICE_WINDOW / 1.5);
    }
    // Two uniform numbers of a xorshift generator make two normal ones (Box and Muller).
    uint64_t state = 88172645463325252;
    for (int index = 0; index < VOICE_NOISE; index++) {
        double uniform[2];
        for (int part = 0; part < 2; part++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            uniform[part] = ((double)(state >> 32) + 1) / 4294967297.0;
        }
        const double radius = sqrt(-2 * log(uniform[0]));
        tables->noise[0][index] = (float)(radius * cos(2 * M_PI * uniform[1]));
        tables->noise[1][index] = (float)(radius * sin(2 * M_PI * uniform[1]));
    }
}

#if defined(__x86_64__)

#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#define VOICE_NAME(part) avx2_##part
#define VOICE_LANES 8
#include "voice_variant.h"
#undef VOICE_NAME
#undef VOICE_LANES
#pragma clang attribute pop

#pragma clang attribute push(__attribute__((target("avx512f"))), apply_to = function)
#define VOICE_NAME(part) avx512_##part
#define VOICE_LANES 16
#include "voice_variant.h"
#pragma clang attribute pop

bool voice_kernel_is_available(voice_kernel kernel)
{
    switch (kernel) {
    case VOICE_BASELINE: return true;
    case VOICE_AVX2: return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case VOICE_AVX512: return __builtin_cpu_supports("avx512f");
    }
    return false;
}

void voice_pulses(voice_kernel kernel, const voice_clause *clause, float *pulses)
{
    switch (kernel) {
    case VOICE_BASELINE: return baseline_pulses(clause, pulses);
    case VOICE_AVX2: return avx2_pulses(clause, pulses);
    case VOICE_AVX512: return avx512_pulses(clause, pulses);
    }
}

void voice_add(
    voice_kernel kernel, const voice_tables *tables, const voice_clause *clause, const float *pulses,
    size_t first, size_t count, uint64_t random, float *sound)
{
    switch (kernel) {
    case VOICE_BASELINE:
        return baseline_add(tables, clause, pulses, first, count, random, sound);
    case VOICE_AVX2: return avx2_add(tables, clause, pulses, first, count, random, sound);
    case VOICE_AVX512: return avx512_add(tables, clause, pulses, first, count, random, sound);
    }
}

#else

bool voice_kernel_is_available(voice_kernel kernel)
{
    return kernel == VOICE_BASELINE;
}

void voice_pulses(voice_kernel kernel, const voice_clause *clause, float *pulses)
{
    (void)kernel;
    baseline_pulses(clause, pulses);
}

void voice_add(
    voice_kernel kernel, const voice_tables *tables, const voice_clause *clause, const float *pulses,
    size_t first, size_t count, uint64_t random, float *sound)
{
    (void)kernel;
    baseline_add(tables, clause, pulses, first, count, random, sound);
}

#endif
