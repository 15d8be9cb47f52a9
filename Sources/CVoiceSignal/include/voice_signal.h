// The signal of the natural voice: from the spectra that its model makes to sound at 24 kHz, by the
// widest instructions that the processor has.
//
// A frame is 300 samples (12.5 ms), of which the model describes a spectrum of 601 bins:
//
//     S = e^min(lh,7) · e^{iπ tanh θ} · E  +  e^min(ln,7) · Z  +  e^min(lr,7) · e^{iφ}
//
// E is the spectrum of pulses at the pitch f0, Z is noise. The sound is the inverse transform of the
// frames, windowed and added. Several frames are computed side by side, one in each lane of a vector:
// the model's outputs are [601][frames], so one load is a bin of several frames.
//
// NaturalVoice in Agents has what is before and after.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /// Samples between two frames.
    VOICE_HOP = 300,
    /// Samples of a frame's window.
    VOICE_WINDOW = 1200,
    /// Bins of a frame's spectrum.
    VOICE_BINS = 601,
    /// Frames of a clause, at least: a kernel computes so many at once.
    VOICE_MIN_FRAMES = 16,
    /// Samples before the pulses of frame 0, and after those of the last frame: the ends mirrored
    /// (voice_variant.h).
    VOICE_MARGIN = 600,
    /// Normally distributed numbers in each of the two tables of noise.
    VOICE_NOISE = 16384,
};

/// The instructions that a kernel is compiled for.
typedef enum {
    /// What every processor of the architecture has: SSE2 or NEON, four frames at a time.
    VOICE_BASELINE,
    /// AVX2 and FMA: eight frames at a time.
    VOICE_AVX2,
    /// AVX-512F: sixteen frames at a time.
    VOICE_AVX512,
} voice_kernel;

/// Whether this processor can run a kernel.
bool voice_kernel_is_available(voice_kernel kernel);

/// What the transforms read; the same for every clause.
typedef struct {
    /// e^{-2πik/1200}.
    float cosine[VOICE_WINDOW], sine[VOICE_WINDOW];
    /// A Hann window divided by the hop, for the pulses.
    float analysis[VOICE_WINDOW];
    /// A Hann window for the sound, divided by the transform's length and by 1.5, which is the sum of
    /// the squared windows that overlap. At the ends of a clause fewer overlap, so up to 300 samples
    /// there are quieter; they are silent anyway.
    float synthesis[VOICE_WINDOW];
    /// The real and imaginary parts of Z.
    float noise[2][VOICE_NOISE];
} voice_tables;

/// Fills the tables.
void voice_fill_tables(voice_tables *tables);

/// What the model made of a clause; its memory is the caller's.
typedef struct {
    /// [601][frames] each.
    const float *lh, *theta, *ln, *lr, *phi;
    /// Hz, [frames]. A frame of 40 Hz or less has no pulses.
    const float *f0;
    /// At least VOICE_MIN_FRAMES.
    size_t frames;
} voice_clause;

/// Makes the pulses of a clause: VOICE_MARGIN + frames · VOICE_HOP + VOICE_MARGIN samples.
void voice_pulses(voice_kernel kernel, const voice_clause *clause, float *pulses);

/// Adds the sound of the frames [first, first + count) of a clause to `sound`, whose first sample is
/// 600 samples before the first of frame `first`, and which has (count + 3) · VOICE_HOP samples.
/// A number that is not one counts as no sound.
/// - random: chooses the noise; another one for each call.
/// The kernel must be available, and the frames within the clause.
void voice_add(
    voice_kernel kernel, const voice_tables *tables, const voice_clause *clause, const float *pulses,
    size_t first, size_t count, uint64_t random, float *sound);
