// Parses JSON text into a flat index of its values, for Codec/JSON/JSON.swift.
//
// One call parses a whole document with simdjson (RFC 8259: structure, UTF-8, strings and numbers
// are all checked) and returns an array of nodes in document order. Swift reads the nodes directly,
// without a call per value. Each node has the offsets of its exact bytes, so that a part of a
// document can be forwarded as it was received.
//
// Order of the nodes: a container, then its children. An object's children alternate: a key (a
// string node), then its value. `next` is the index after a value and everything inside it.
//
// A \u escape of half a surrogate pair stands for no character. It is read as U+FFFD, also in the
// copy of the document, and a string that begins or ends with one has the half in its node: the other
// half may be in another document of a stream.
//
// No C++ type and no exception crosses this header. A parser is used by one thread at a time.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum : uint32_t {
    CSIMDJSON_NULL,
    CSIMDJSON_FALSE,
    CSIMDJSON_TRUE,
    CSIMDJSON_INTEGER,
    CSIMDJSON_DOUBLE,
    CSIMDJSON_STRING,
    CSIMDJSON_ARRAY,
    CSIMDJSON_OBJECT,
} csimdjson_kind;

typedef enum : uint32_t {
    CSIMDJSON_OK,
    /// More bytes than the parser's limit.
    CSIMDJSON_TOO_LARGE,
    /// More nested arrays and objects than the parser's limit.
    CSIMDJSON_TOO_DEEP,
    /// More keys and values than the parser's limit.
    CSIMDJSON_TOO_MANY_VALUES,
    /// Only white space.
    CSIMDJSON_EMPTY,
    CSIMDJSON_INVALID_UTF8,
    /// An unknown escape, a raw control character, or no closing quote.
    CSIMDJSON_INVALID_STRING,
    /// Not a number of RFC 8259 section 6, or too large for a double.
    CSIMDJSON_INVALID_NUMBER,
    /// A word other than true, false and null.
    CSIMDJSON_INVALID_LITERAL,
    /// A missing or misplaced bracket, comma, colon or key.
    CSIMDJSON_INVALID_STRUCTURE,
    /// More text after the document.
    CSIMDJSON_TRAILING_CONTENT,
    /// The document is a single string, number or literal.
    CSIMDJSON_NOT_A_CONTAINER,
    CSIMDJSON_OUT_OF_MEMORY,
} csimdjson_status;

typedef struct {
    /// The decoded text of a string (not terminated).
    const char *text;
    union {
        int64_t integer;
        double number;
    };
    /// Bytes of `text`; number of members or elements of a container.
    uint32_t count;
    /// Bytes of the value in the document, without surrounding white space.
    uint32_t raw_offset;
    uint32_t raw_count;
    /// Index of the first node that is not part of this value.
    uint32_t next;
    csimdjson_kind kind;
    /// Of a string: the low half of a surrogate pair that it begins with, or 0. It is U+FFFD in `text`.
    uint16_t first_half;
    /// The same of the high half that it ends with.
    uint16_t last_half;
} csimdjson_node;

typedef struct {
    /// The root is the first node. Valid until the next parse.
    const csimdjson_node *nodes;
    uint32_t node_count;
    /// The parser's copy of the document.
    const char *source;
    /// After a failure: the start of the last value that was reached, or -1 if the document was
    /// refused before any.
    int64_t error_offset;
} csimdjson_document;

typedef struct csimdjson_parser csimdjson_parser;

/// Creates a parser, or returns NULL without memory. `max_bytes` must be below 4 GiB. Buffers grow
/// with the documents. A buffer of more than `retained_bytes` is freed when a smaller document
/// follows.
csimdjson_parser *csimdjson_create(
    size_t max_bytes, uint32_t max_depth, uint32_t max_nodes, size_t retained_bytes);

void csimdjson_destroy(csimdjson_parser *parser);

/// Copies and parses a document. Fills `document` on success and on failure.
csimdjson_status csimdjson_parse(
    csimdjson_parser *parser, const void *bytes, size_t count, csimdjson_document *document);

#ifdef __cplusplus
}
#endif
