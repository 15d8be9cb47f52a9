#pragma once
// zlib, with wrappers for its initialisers: they are macros, which Swift cannot use.
#ifndef ZLIB_CONST
#define ZLIB_CONST
#endif
#include <zlib.h>
/* Raw deflate data, as permessage-deflate has it: zlib takes negative window bits for that. */
static inline int parley_inflate_init_raw(z_stream *stream, int window_bits) {
    return inflateInit2(stream, -window_bits);
}
static inline int parley_deflate_init_raw(
    z_stream *stream, int level, int window_bits, int memory_level) {
    return deflateInit2(
        stream, level, Z_DEFLATED, -window_bits, memory_level, Z_DEFAULT_STRATEGY);
}
