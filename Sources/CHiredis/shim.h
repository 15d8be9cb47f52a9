#pragma once
// libhiredis: its reader and its formatter of RESP2. Its sockets are not used.
#include <hiredis/hiredis.h>

typedef void *(*parley_redis_bytes_callback)(const redisReadTask *task, char *bytes, size_t count);
typedef void *(*parley_redis_array_callback)(const redisReadTask *task, int count);
typedef void *(*parley_redis_integer_callback)(const redisReadTask *task, long long value);
typedef void *(*parley_redis_null_callback)(const redisReadTask *task);

// A reader that builds values by callbacks, which get `context` in their task. The functions are
// the same for all readers.
static inline redisReader *parley_redis_reader_create(
    parley_redis_bytes_callback bytes, parley_redis_array_callback array,
    parley_redis_integer_callback integer, parley_redis_null_callback null, void *context) {
    static redisReplyObjectFunctions functions;
    functions.createString = bytes;
    functions.createArray = array;
    functions.createInteger = integer;
    functions.createNil = null;
    // What the callbacks return belongs to the owner of the reader.
    functions.freeObject = NULL;
    redisReader *reader = redisReaderCreateWithFunctions(&functions);
    if (reader) reader->privdata = context;
    return reader;
}
