#pragma once
// libopus, with wrappers for the variadic control functions, which Swift cannot call.
#include <opus/opus.h>
static inline int parley_opus_set(OpusEncoder *encoder, int request, opus_int32 value) {
    return opus_encoder_ctl(encoder, request, value);
}
static inline int parley_opus_reset_encoder(OpusEncoder *encoder) {
    return opus_encoder_ctl(encoder, OPUS_RESET_STATE);
}
static inline int parley_opus_reset_decoder(OpusDecoder *decoder) {
    return opus_decoder_ctl(decoder, OPUS_RESET_STATE);
}
