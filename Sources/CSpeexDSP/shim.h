#pragma once
// speexdsp's resampler and preprocessor.
#include <speex/speex_preprocess.h>
#include <speex/speex_resampler.h>
