// One kernel. voice_signal.c includes this file once for each and defines:
//   VOICE_NAME(part)   a name that no other kernel has
//   VOICE_LANES        floats per vector, and frames that are computed at once

#define vector VOICE_NAME(vector)
#define integers VOICE_NAME(integers)
#define complex VOICE_NAME(complex)

typedef float vector __attribute__((vector_size(4 * VOICE_LANES), aligned(4), may_alias));
typedef int32_t integers __attribute__((vector_size(4 * VOICE_LANES), aligned(4), may_alias));
typedef struct { vector real, imaginary; } complex;

/// x within two limits; the lower one where x is not a number.
__attribute__((always_inline)) static inline vector VOICE_NAME(limited)(
    vector x, float least, float most)
{
    const vector low = (vector){0} + least, high = (vector){0} + most;
    integers wanted = x > low;
    x = (vector)(((integers)x & wanted) | ((integers)low & ~wanted));
    wanted = x < high;
    return (vector)(((integers)x & wanted) | ((integers)high & ~wanted));
}

/// x rounded to a whole number; |x| below 2^22.
__attribute__((always_inline)) static inline vector VOICE_NAME(rounded)(vector x)
{
    return (x + 12582912.0f) - 12582912.0f;
}

/// e^x for x in [-80, 80]: 2^n times a polynomial for |r| ≤ ln 2 / 2; relative error 2e-7.
__attribute__((always_inline)) static inline vector VOICE_NAME(exponential)(vector x)
{
    const vector n = VOICE_NAME(rounded)(x * 1.44269504f);
    const vector r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    vector p = r * 1.3981999507e-3f + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    const integers power = (__builtin_convertvector(n, integers) + 127) << 23;
    return p * (vector)power;
}

/// cos x + i sin x for |x| up to 10,000: polynomials for |r| ≤ π/4, and the quadrant.
__attribute__((always_inline)) static inline complex VOICE_NAME(turn)(vector x)
{
    const vector n = VOICE_NAME(rounded)(x * 0.636619772f);
    const integers quadrant = __builtin_convertvector(n, integers);
    const vector r =
        ((x - n * 1.5703125f) - n * 4.837512969970703125e-4f) - n * 7.54978995489188216e-8f;
    const vector q = r * r;
    vector s = q * -1.9515295891e-4f + 8.3321608736e-3f;
    s = s * q - 1.6666654611e-1f;
    s = s * q * r + r;
    vector c = q * 2.443315711809948e-5f - 1.388731625493765e-3f;
    c = c * q + 4.166664568298827e-2f;
    c = c * q * q - q * 0.5f + 1.0f;
    const integers swapped = (quadrant & 1) != 0;
    const integers real = ((integers)s & swapped) | ((integers)c & ~swapped);
    const integers imaginary = ((integers)c & swapped) | ((integers)s & ~swapped);
    return (complex){
        (vector)(real ^ (((quadrant + 1) & 2) << 30)), (vector)(imaginary ^ ((quadrant & 2) << 30))};
}

// MARK: Pulses

/// The sum of the harmonics of a pitch up to 11 kHz, at unit amplitude: where the phase is t,
/// sin((H + ½) t) / (2 sin(t / 2)) - ½.
static void VOICE_NAME(pulses)(const voice_clause *clause, float *pulses)
{
    enum { ROOM = (VOICE_HOP + VOICE_LANES - 1) / VOICE_LANES * VOICE_LANES };
    const size_t frames = clause->frames;
    float pitch[ROOM] = {0}, phase[ROOM] = {0}, made[ROOM];
    double turns = 0;
    float *const own = pulses + VOICE_MARGIN;
    for (size_t frame = 0; frame < frames; frame++) {
        const float before = clause->f0[frame ? frame - 1 : 0], here = clause->f0[frame],
                    after = clause->f0[frame + 1 < frames ? frame + 1 : frame];
        for (int index = 0; index < VOICE_HOP; index++) {
            // Linear between the middles of the frames.
            const float place = (index + 0.5f) / VOICE_HOP - 0.5f;
            const float hertz = place < 0 ? here * (1 + place) - before * place
                                          : here * (1 - place) + after * place;
            pitch[index] = hertz > 40 && hertz < 11000 ? hertz : 0;
            turns += (pitch[index] > 40 ? pitch[index] : 40) * (1.0 / 24000);
            turns -= turns >= 1;
            phase[index] = (float)(turns * 2 * M_PI);
        }
        for (int index = 0; index < VOICE_HOP; index += VOICE_LANES) {
            const vector hertz = *(const vector *)(pitch + index), t = *(const vector *)(phase + index);
            const integers voiced = hertz > 40;
            const vector ratio = 11000.0f / VOICE_NAME(limited)(hertz, 40, 11000);
            vector harmonics = VOICE_NAME(rounded)(ratio);
            harmonics -= (vector)((integers)((vector){0} + 1.0f) & (harmonics > ratio));
            harmonics += 0.5f;
            const vector divisor = 2 * VOICE_NAME(turn)(t * 0.5f).imaginary;
            const integers far = (divisor > 2e-3f) | (divisor < -2e-3f);
            const vector quotient = VOICE_NAME(turn)(harmonics * t).imaginary / divisor;
            const vector value =
                (vector)(((integers)quotient & far) | ((integers)harmonics & ~far)) - 0.5f;
            *(vector *)(made + index) = (vector)((integers)value & voiced);
        }
        memcpy(own + frame * VOICE_HOP, made, VOICE_HOP * sizeof *made);
    }
    // The margins mirror the ends.
    const size_t count = frames * VOICE_HOP;
    for (size_t index = 1; index <= VOICE_MARGIN; index++) {
        own[-(ptrdiff_t)index] = own[index];
        own[count - 1 + index] = own[count - 1 - index];
    }
}

// MARK: Fourier transforms: 1,200 real numbers as 600 complex ones, 600 = 5 · 5 · 4 · 3 · 2

/// One pass of Stockham's algorithm: `radix` · `rest` numbers at each of `stride` places.
/// - sign: 1 for the transform, -1 for its inverse.
__attribute__((always_inline)) static inline void VOICE_NAME(pass)(
    const voice_tables *tables, const complex *restrict from, complex *restrict to, int radix,
    int rest, int stride, float sign)
{
    for (int k = 0; k < rest; k++)
        for (int place = 0; place < stride; place++) {
            complex input[5];
#pragma clang loop unroll(full)
            for (int j = 0; j < radix; j++)
                input[j] = from[place + stride * (k + rest * j)];
#pragma clang loop unroll(full)
            for (int t = 0; t < radix; t++) {
                complex sum = input[0];
#pragma clang loop unroll(full)
                for (int j = 1; j < radix; j++) {
                    const int angle = j * t % radix * (VOICE_WINDOW / radix);
                    const float c = tables->cosine[angle], s = tables->sine[angle] * sign;
                    sum.real += input[j].real * c - input[j].imaginary * s;
                    sum.imaginary += input[j].real * s + input[j].imaginary * c;
                }
                const int angle = k * t * (VOICE_WINDOW / (radix * rest));
                const float c = tables->cosine[angle], s = tables->sine[angle] * sign;
                to[place + stride * (radix * k + t)] = (complex){
                    sum.real * c - sum.imaginary * s, sum.real * s + sum.imaginary * c};
            }
        }
}

/// Transforms 600 complex numbers from `a` into `b`; `a` is overwritten.
__attribute__((always_inline)) static inline void VOICE_NAME(transform)(
    const voice_tables *tables, complex *a, complex *b, float sign)
{
    VOICE_NAME(pass)(tables, a, b, 5, 120, 1, sign);
    VOICE_NAME(pass)(tables, b, a, 5, 24, 5, sign);
    VOICE_NAME(pass)(tables, a, b, 4, 6, 25, sign);
    VOICE_NAME(pass)(tables, b, a, 3, 2, 100, sign);
    VOICE_NAME(pass)(tables, a, b, 2, 1, 300, sign);
}

// MARK: Frames

/// The spectrum of a bin, of the pulses' spectrum `pulses` in it.
__attribute__((always_inline)) static inline complex VOICE_NAME(bin)(
    const voice_tables *tables, const voice_clause *clause, size_t at, const size_t noise[2],
    size_t bin, complex pulses)
{
    const size_t place = bin * clause->frames + at;
    const vector harmonic =
        VOICE_NAME(exponential)(VOICE_NAME(limited)(*(const vector *)(clause->lh + place), -80, 7));
    const vector rough =
        VOICE_NAME(exponential)(VOICE_NAME(limited)(*(const vector *)(clause->ln + place), -80, 7));
    const vector free =
        VOICE_NAME(exponential)(VOICE_NAME(limited)(*(const vector *)(clause->lr + place), -80, 7));
    // tanh x = 1 - 2 / (e^2x + 1)
    const vector power = VOICE_NAME(exponential)(
        2 * VOICE_NAME(limited)(*(const vector *)(clause->theta + place), -9, 9));
    const complex turned = VOICE_NAME(turn)((float)M_PI * (1 - 2 / (power + 1)));
    const complex own =
        VOICE_NAME(turn)(VOICE_NAME(limited)(*(const vector *)(clause->phi + place), -1e4f, 1e4f));
    const vector real = *(const vector *)(tables->noise[0] + noise[0] + bin * VOICE_LANES);
    const vector imaginary = *(const vector *)(tables->noise[1] + noise[1] + bin * VOICE_LANES);
    return (complex){
        harmonic * (pulses.real * turned.real - pulses.imaginary * turned.imaginary)
            + rough * real + free * own.real,
        harmonic * (pulses.real * turned.imaginary + pulses.imaginary * turned.real)
            + rough * imaginary + free * own.imaginary};
}

/// The sound of VOICE_LANES frames: sample 2n in the real part of b[n], 2n + 1 in the imaginary one.
static void VOICE_NAME(frames)(
    const voice_tables *tables, const voice_clause *clause, const float *pulses, size_t at,
    const size_t noise[2], complex *a, complex *b)
{
    enum { HALF = VOICE_WINDOW / 2 };
    complex spectrum[VOICE_BINS];
    for (int index = 0; index < VOICE_WINDOW; index++) {
        vector values;
        for (int lane = 0; lane < VOICE_LANES; lane++)
            values[lane] = pulses[(at + lane) * VOICE_HOP + index];
        values *= tables->analysis[index];
        if (index & 1)
            a[index / 2].imaginary = values;
        else
            a[index / 2].real = values;
    }
    VOICE_NAME(transform)(tables, a, b, 1);
    for (int bin = 0; bin < VOICE_BINS; bin++) {
        // The spectrum of the real numbers, of that of the pairs.
        const complex z = b[bin % HALF], w = b[(HALF - bin) % HALF];
        const vector oddReal = 0.5f * (z.imaginary + w.imaginary), oddImaginary = 0.5f * (w.real - z.real);
        const float c = tables->cosine[bin], s = tables->sine[bin];
        const complex pulse = {
            0.5f * (z.real + w.real) + oddReal * c - oddImaginary * s,
            0.5f * (z.imaginary - w.imaginary) + oddReal * s + oddImaginary * c};
        spectrum[bin] = VOICE_NAME(bin)(tables, clause, at, noise, (size_t)bin, pulse);
    }
    spectrum[0].imaginary *= 0;
    spectrum[HALF].imaginary *= 0;
    for (int bin = 0; bin < HALF; bin++) {
        const complex p = spectrum[bin], q = spectrum[HALF - bin];
        const vector oddReal = p.real - q.real, oddImaginary = p.imaginary + q.imaginary;
        const float c = tables->cosine[bin], s = -tables->sine[bin];
        a[bin].real = p.real + q.real - (oddReal * s + oddImaginary * c);
        a[bin].imaginary = p.imaginary - q.imaginary + (oddReal * c - oddImaginary * s);
    }
    VOICE_NAME(transform)(tables, a, b, -1);
}

static void VOICE_NAME(add)(
    const voice_tables *tables, const voice_clause *clause, const float *pulses, size_t first,
    size_t count, uint64_t random, float *sound)
{
    enum { HALF = VOICE_WINDOW / 2, PLACES = VOICE_NOISE - VOICE_BINS * VOICE_LANES };
    complex a[HALF], b[HALF];
    for (size_t at = first; at < first + count; at += VOICE_LANES) {
        // At the end of a clause, frames that have been computed are computed again and left out.
        const size_t last = clause->frames - VOICE_LANES, start = at < last ? at : last;
        random = random * 6364136223846793005 + 1442695040888963407;
        const size_t noise[2] = {(random >> 33) % PLACES, (random >> 20) % PLACES};
        VOICE_NAME(frames)(tables, clause, pulses, start, noise, a, b);
        for (size_t frame = at; frame < start + VOICE_LANES && frame < first + count; frame++) {
            float *place = sound + (frame - first) * VOICE_HOP;
            const size_t lane = frame - start;
            for (int index = 0; index < HALF; index++) {
                place[2 * index] += b[index].real[lane] * tables->synthesis[2 * index];
                place[2 * index + 1] += b[index].imaginary[lane] * tables->synthesis[2 * index + 1];
            }
        }
    }
}

#undef vector
#undef integers
#undef complex
