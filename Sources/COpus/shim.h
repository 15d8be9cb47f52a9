#pragma once
// libopus, and the variadic controls that Swift cannot call.
#include <opus/opus.h>
static inline int parley_opus_set(OpusEncoder *encoder, int request, opus_int32 value) {
    return opus_encoder_ctl(encoder, request, value);
}
