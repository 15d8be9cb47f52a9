#pragma once
// speexdsp's resampler.
#include <speex/speex_resampler.h>
