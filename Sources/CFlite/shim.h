#pragma once
// flite. Its voices are separate libraries, opened at run time.
#include <flite/flite.h>

// The text analysis of a voice: words, phrases, syllables and phones, and no sound. The library
// exports it, but no header declares it. The utterance must have been through `utt_init`.
cst_utterance *utt_synth_text2segs(cst_utterance *utterance);
