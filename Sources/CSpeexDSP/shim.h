#pragma once
// speexdsp's resampler.
#include <speex/speex_preprocess.h>
#include <speex/speex_resampler.h>
