// The only file that uses simdjson. It walks a document once, in order, and records every value in
// a flat array of nodes. include/CSimdjson.h describes the nodes; Codec uses them.
//
// simdjson's stage 1 (which picks AVX2 or AVX-512 at run time) checks UTF-8, quotes and control
// characters and finds the tokens. Its on-demand iterator checks the structure during the walk.
// Text without escapes is not copied again: its node points into the document. Only simdjson's
// public API is used, so that any 3.x of a distribution works.
//
// Nothing here throws: simdjson's exceptions are disabled, and memory comes from malloc.
#define SIMDJSON_EXCEPTIONS 0
#define SIMDJSON_DEVELOPMENT_CHECKS 0
#include "CSimdjson.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include <simdjson.h>

namespace {

using namespace simdjson;

constexpr size_t minimum_document_capacity = 4096;
constexpr uint32_t minimum_node_capacity = 64;
/// Maximum nodes kept between documents: 160 kB.
constexpr uint32_t retained_node_capacity = 4096;
/// Indices and offsets are 32 bits wide.
constexpr size_t largest_document = 0xFFFF'FF00;

csimdjson_status status_of(error_code error) {
    switch (error) {
    case SUCCESS:
        return CSIMDJSON_OK;
    case CAPACITY:
        return CSIMDJSON_TOO_LARGE;
    case MEMALLOC:
        return CSIMDJSON_OUT_OF_MEMORY;
    case DEPTH_ERROR:
        return CSIMDJSON_TOO_DEEP;
    case EMPTY:
        return CSIMDJSON_EMPTY;
    case UTF8_ERROR:
        return CSIMDJSON_INVALID_UTF8;
    case STRING_ERROR:
    case UNESCAPED_CHARS:
    case UNCLOSED_STRING:
        return CSIMDJSON_INVALID_STRING;
    case NUMBER_ERROR:
    case NUMBER_OUT_OF_RANGE:
        return CSIMDJSON_INVALID_NUMBER;
    case T_ATOM_ERROR:
    case F_ATOM_ERROR:
    case N_ATOM_ERROR:
        return CSIMDJSON_INVALID_LITERAL;
    case TRAILING_CONTENT:
        return CSIMDJSON_TRAILING_CONTENT;
    default:
        return CSIMDJSON_INVALID_STRUCTURE;
    }
}

bool is_white_space(char byte) {
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

size_t rounded_up(size_t needed, size_t smallest) {
    size_t capacity = smallest;
    while (capacity < needed) {
        capacity *= 2;
    }
    return capacity;
}

constexpr size_t escape_length = 6;
constexpr char replacement_escape[escape_length + 1] = "\\ufffd";

/// A half of a surrogate pair that stood alone, and where its escape is in the document.
struct lone_half {
    uint32_t offset;
    uint16_t half;
};

/// The UTF-16 unit of the \u escape at a place with `rest` bytes, or -1: there is none.
int32_t escaped_unit(const char *escape, size_t rest) {
    if (rest < escape_length || escape[0] != '\\' || escape[1] != 'u') {
        return -1;
    }
    int32_t unit = 0;
    for (size_t index = 2; index < escape_length; index += 1) {
        char digit = escape[index];
        int32_t value = digit >= '0' && digit <= '9'   ? digit - '0'
                        : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                        : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10
                                                       : -1;
        if (value < 0) {
            return -1;
        }
        unit = unit << 4 | value;
    }
    return unit;
}

bool is_high_half(int32_t unit) { return unit >= 0xD800 && unit <= 0xDBFF; }
bool is_low_half(int32_t unit) { return unit >= 0xDC00 && unit <= 0xDFFF; }

struct free_memory {
    void operator()(void *memory) const { std::free(memory); }
};
template <typename T> using buffer = std::unique_ptr<T[], free_memory>;

} // namespace

struct csimdjson_parser {
    size_t max_bytes;
    uint32_t max_depth;
    uint32_t max_nodes;
    size_t retained_bytes;

    ondemand::parser simd{SIMDJSON_MAXSIZE_BYTES};
    buffer<char> source;
    size_t source_capacity = 0;
    size_t source_count = 0;
    buffer<csimdjson_node> nodes;
    uint32_t node_capacity = 0;
    uint32_t node_count = 0;
    /// Start of the last value that was reached, or -1.
    int64_t reached = -1;
    /// Halves of surrogate pairs that stood alone, by their place.
    buffer<lone_half> halves;
    uint32_t half_count = 0;
    uint32_t half_capacity = 0;

    csimdjson_status load(const void *bytes, size_t count);
    csimdjson_status replace_lone_halves();
    bool note_half(uint32_t offset, uint16_t half);
    uint16_t half_at(const char *escape) const;
    void note_halves(std::string_view token, csimdjson_node &node) const;
    csimdjson_status walk_root(ondemand::document &document);
    csimdjson_status walk_value(
        ondemand::value &value, ondemand::document &document, uint32_t depth);
    csimdjson_status walk_array(
        ondemand::array &array, const char *start, ondemand::document &document, uint32_t depth);
    csimdjson_status walk_object(
        ondemand::object &object, const char *start, ondemand::document &document,
        uint32_t depth);
    csimdjson_status record_key(ondemand::field &field);
    csimdjson_status record_scalar(ondemand::value &value, std::string_view token);
    csimdjson_status record_string(
        ondemand::value &value, std::string_view token, csimdjson_node &node);
    csimdjson_status record_number(
        ondemand::value &value, std::string_view token, csimdjson_node &node);
    csimdjson_status make_node(csimdjson_kind kind, const char *start, uint32_t &index);
    void close_container(uint32_t index, uint32_t children, ondemand::document &document);
};

/// Copies the document into a buffer with padding, because simdjson reads past the end, and adapts
/// the buffers' sizes.
csimdjson_status csimdjson_parser::load(const void *bytes, size_t count) {
    if (count > max_bytes) {
        return CSIMDJSON_TOO_LARGE;
    }
    // A rare huge document must not keep its memory.
    bool is_oversized = source_capacity > retained_bytes && count <= retained_bytes;
    if (!source || source_capacity < count || is_oversized) {
        size_t capacity = rounded_up(count, minimum_document_capacity);
        source.reset(static_cast<char *>(std::malloc(capacity + SIMDJSON_PADDING)));
        source_capacity = source ? capacity : 0;
        if (!source || simd.allocate(capacity, max_depth + 1) != SUCCESS) {
            source_capacity = 0;
            return CSIMDJSON_OUT_OF_MEMORY;
        }
    }
    if (node_capacity > retained_node_capacity) {
        nodes.reset();
        node_capacity = 0;
    }
    if (half_capacity > retained_node_capacity) {
        halves.reset();
        half_capacity = 0;
    }
    if (count > 0) {
        std::memcpy(source.get(), bytes, count);
    }
    // White space, so that a token at the end of the document is recognised as complete.
    std::memset(source.get() + count, ' ', SIMDJSON_PADDING);
    source_count = count;
    return replace_lone_halves();
}

/// Writes U+FFFD in the place of each half of a surrogate pair without its other half (RFC 8259
/// section 8.2): simdjson refuses them. Both escapes have six bytes.
csimdjson_status csimdjson_parser::replace_lone_halves() {
    half_count = 0;
    char *end = source.get() + source_count;
    char *place = source.get();
    while (place < end) {
        place = static_cast<char *>(std::memchr(place, '\\', static_cast<size_t>(end - place)));
        if (place == nullptr) {
            break;
        }
        size_t rest = static_cast<size_t>(end - place);
        int32_t unit = escaped_unit(place, rest);
        if (unit < 0) {
            place += rest < 2 ? 1 : 2;
            continue;
        }
        if (is_high_half(unit) && rest > escape_length
            && is_low_half(escaped_unit(place + escape_length, rest - escape_length))) {
            place += 2 * escape_length;
            continue;
        }
        if (is_high_half(unit) || is_low_half(unit)) {
            if (!note_half(static_cast<uint32_t>(place - source.get()),
                           static_cast<uint16_t>(unit))) {
                return CSIMDJSON_OUT_OF_MEMORY;
            }
            std::memcpy(place, replacement_escape, escape_length);
        }
        place += escape_length;
    }
    return CSIMDJSON_OK;
}

bool csimdjson_parser::note_half(uint32_t offset, uint16_t half) {
    if (half_count == half_capacity) {
        uint32_t capacity = half_capacity == 0 ? minimum_node_capacity : half_capacity * 2;
        auto *moved = static_cast<lone_half *>(
            std::realloc(halves.get(), capacity * sizeof(lone_half)));
        if (moved == nullptr) {
            return false;
        }
        (void)halves.release();
        halves.reset(moved);
        half_capacity = capacity;
    }
    halves[half_count++] = {offset, half};
    return true;
}

/// The half whose escape stood here, or 0.
uint16_t csimdjson_parser::half_at(const char *escape) const {
    auto offset = static_cast<uint32_t>(escape - source.get());
    const lone_half *begin = halves.get();
    const lone_half *end = begin + half_count;
    const lone_half *found = std::lower_bound(
        begin, end, offset,
        [](const lone_half &half, uint32_t offset) { return half.offset < offset; });
    return found != end && found->offset == offset ? found->half : 0;
}

/// Notes the halves at the ends of a string, given with its escapes.
void csimdjson_parser::note_halves(std::string_view token, csimdjson_node &node) const {
    if (half_count == 0 || token.size() < escape_length) {
        return;
    }
    uint16_t first = half_at(token.data());
    uint16_t last = half_at(token.data() + token.size() - escape_length);
    node.first_half = is_low_half(first) ? first : 0;
    node.last_half = is_high_half(last) ? last : 0;
}

csimdjson_status csimdjson_parser::make_node(
    csimdjson_kind kind, const char *start, uint32_t &index) {
    if (node_count == node_capacity) {
        if (node_count >= max_nodes) {
            return CSIMDJSON_TOO_MANY_VALUES;
        }
        uint32_t capacity =
            node_capacity == 0 ? minimum_node_capacity : node_capacity * 2;
        if (capacity > max_nodes) {
            capacity = max_nodes;
        }
        auto *moved = static_cast<csimdjson_node *>(
            std::realloc(nodes.get(), capacity * sizeof(csimdjson_node)));
        if (moved == nullptr) {
            return CSIMDJSON_OUT_OF_MEMORY;
        }
        (void)nodes.release();
        nodes.reset(moved);
        node_capacity = capacity;
    }
    index = node_count++;
    csimdjson_node &node = nodes[index];
    node = csimdjson_node{};
    node.kind = kind;
    node.raw_offset = static_cast<uint32_t>(start - source.get());
    node.next = node_count;
    reached = node.raw_offset;
    return CSIMDJSON_OK;
}

csimdjson_status csimdjson_parser::walk_root(ondemand::document &document) {
    const char *start = source.get();
    while (is_white_space(*start)) {
        start += 1;
    }
    csimdjson_status status;
    if (*start == '[') {
        ondemand::array array;
        auto error = document.get_array().get(array);
        status = error ? status_of(error) : walk_array(array, start, document, 1);
    } else if (*start == '{') {
        ondemand::object object;
        auto error = document.get_object().get(object);
        status = error ? status_of(error) : walk_object(object, start, document, 1);
    } else {
        return CSIMDJSON_NOT_A_CONTAINER;
    }
    if (status != CSIMDJSON_OK) {
        return status;
    }
    const char *rest;
    bool has_rest = document.current_location().get(rest) == SUCCESS;
    return has_rest ? CSIMDJSON_TRAILING_CONTENT : CSIMDJSON_OK;
}

csimdjson_status csimdjson_parser::walk_value(
    ondemand::value &value, ondemand::document &document, uint32_t depth) {
    std::string_view token = value.raw_json_token();
    while (!token.empty() && is_white_space(token.back())) {
        token.remove_suffix(1);
    }
    if (token.empty()) {
        return CSIMDJSON_INVALID_STRUCTURE;
    }
    switch (token.front()) {
    case '[': {
        ondemand::array array;
        auto error = value.get_array().get(array);
        return error ? status_of(error) : walk_array(array, token.data(), document, depth);
    }
    case '{': {
        ondemand::object object;
        auto error = value.get_object().get(object);
        return error ? status_of(error) : walk_object(object, token.data(), document, depth);
    }
    case ',':
    case ':':
    case ']':
    case '}':
        return CSIMDJSON_INVALID_STRUCTURE;
    default:
        return record_scalar(value, token);
    }
}

csimdjson_status csimdjson_parser::walk_array(
    ondemand::array &array, const char *start, ondemand::document &document, uint32_t depth) {
    if (depth > max_depth) {
        return CSIMDJSON_TOO_DEEP;
    }
    uint32_t index;
    csimdjson_status status = make_node(CSIMDJSON_ARRAY, start, index);
    uint32_t children = 0;
    for (auto element : array) {
        if (status != CSIMDJSON_OK) {
            return status;
        }
        ondemand::value value;
        if (auto error = std::move(element).get(value)) {
            return status_of(error);
        }
        status = walk_value(value, document, depth + 1);
        children += 1;
    }
    if (status == CSIMDJSON_OK) {
        close_container(index, children, document);
    }
    return status;
}

csimdjson_status csimdjson_parser::walk_object(
    ondemand::object &object, const char *start, ondemand::document &document, uint32_t depth) {
    if (depth > max_depth) {
        return CSIMDJSON_TOO_DEEP;
    }
    uint32_t index;
    csimdjson_status status = make_node(CSIMDJSON_OBJECT, start, index);
    uint32_t children = 0;
    for (auto member : object) {
        if (status != CSIMDJSON_OK) {
            return status;
        }
        ondemand::field field;
        if (auto error = std::move(member).get(field)) {
            return status_of(error);
        }
        status = record_key(field);
        if (status == CSIMDJSON_OK) {
            status = walk_value(field.value(), document, depth + 1);
        }
        children += 1;
    }
    if (status == CSIMDJSON_OK) {
        close_container(index, children, document);
    }
    return status;
}

/// The iterator is at the token after the container, with only white space between.
void csimdjson_parser::close_container(
    uint32_t index, uint32_t children, ondemand::document &document) {
    const char *end;
    if (document.current_location().get(end) != SUCCESS) {
        end = source.get() + source_count;
    }
    while (is_white_space(end[-1])) {
        end -= 1;
    }
    csimdjson_node &node = nodes[index];
    node.count = children;
    node.raw_count = static_cast<uint32_t>(end - source.get()) - node.raw_offset;
    node.next = node_count;
}

csimdjson_status csimdjson_parser::record_key(ondemand::field &field) {
    const char *text = field.key().raw();
    uint32_t index;
    csimdjson_status status = make_node(CSIMDJSON_STRING, text - 1, index);
    if (status != CSIMDJSON_OK) {
        return status;
    }
    // Stage 1 has found the closing quote, so the search ends.
    const char *end = text;
    while (*end != '"' && *end != '\\') {
        end += 1;
    }
    size_t count = static_cast<size_t>(end - text);
    if (*end == '\\') {
        std::string_view unescaped;
        if (auto error = field.unescaped_key().get(unescaped)) {
            return status_of(error);
        }
        text = unescaped.data();
        count = unescaped.size();
    }
    nodes[index].text = text;
    nodes[index].count = static_cast<uint32_t>(count);
    return CSIMDJSON_OK;
}

csimdjson_status csimdjson_parser::record_scalar(ondemand::value &value, std::string_view token) {
    uint32_t index;
    csimdjson_status status = make_node(CSIMDJSON_NULL, token.data(), index);
    if (status != CSIMDJSON_OK) {
        return status;
    }
    csimdjson_node &node = nodes[index];
    node.raw_count = static_cast<uint32_t>(token.size());
    // Each value is also read from the iterator. If the iterator skipped it, a string followed by a
    // colon would count as a key, and the text after it as a value, unchecked.
    switch (token.front()) {
    case '"':
        return record_string(value, token, node);
    case 't':
    case 'f': {
        bool flag;
        auto error = value.get_bool().get(flag);
        node.kind = flag ? CSIMDJSON_TRUE : CSIMDJSON_FALSE;
        return error ? CSIMDJSON_INVALID_LITERAL : CSIMDJSON_OK;
    }
    case 'n': {
        bool is_null;
        auto error = value.is_null().get(is_null);
        return error || !is_null ? CSIMDJSON_INVALID_LITERAL : CSIMDJSON_OK;
    }
    case '-':
    case '0' ... '9':
        return record_number(value, token, node);
    default:
        return CSIMDJSON_INVALID_LITERAL;
    }
}

csimdjson_status csimdjson_parser::record_string(
    ondemand::value &value, std::string_view token, csimdjson_node &node) {
    node.kind = CSIMDJSON_STRING;
    if (token.size() < 2 || token.back() != '"') {
        return CSIMDJSON_INVALID_STRING;
    }
    token.remove_prefix(1);
    token.remove_suffix(1);
    error_code error;
    if (std::memchr(token.data(), '\\', token.size()) != nullptr) {
        note_halves(token, node);
        error = value.get_string().get(token);
    } else {
        error = value.get_raw_json_string().error();
    }
    node.text = token.data();
    node.count = static_cast<uint32_t>(token.size());
    return status_of(error);
}

csimdjson_status csimdjson_parser::record_number(
    ondemand::value &value, std::string_view token, csimdjson_node &node) {
    bool is_integer = token.find_first_of(".eE") == std::string_view::npos;
    if (is_integer && value.get_int64().get(node.integer) == SUCCESS) {
        node.kind = CSIMDJSON_INTEGER;
        return CSIMDJSON_OK;
    }
    // An integer of more than 63 bits is valid JSON (RFC 8259 section 6): kept as a double.
    node.kind = CSIMDJSON_DOUBLE;
    auto error = value.get_double().get(node.number);
    return error ? CSIMDJSON_INVALID_NUMBER : CSIMDJSON_OK;
}

extern "C" csimdjson_parser *csimdjson_create(
    size_t max_bytes, uint32_t max_depth, uint32_t max_nodes, size_t retained_bytes) {
    auto *parser = new (std::nothrow) csimdjson_parser{};
    if (parser == nullptr) {
        return nullptr;
    }
    parser->max_bytes = max_bytes < largest_document ? max_bytes : largest_document;
    parser->max_depth = max_depth;
    parser->max_nodes = max_nodes;
    parser->retained_bytes = retained_bytes;
    return parser;
}

extern "C" void csimdjson_destroy(csimdjson_parser *parser) { delete parser; }

extern "C" csimdjson_status csimdjson_parse(
    csimdjson_parser *parser, const void *bytes, size_t count, csimdjson_document *result) {
    parser->node_count = 0;
    parser->reached = -1;
    csimdjson_status status = parser->load(bytes, count);
    if (status == CSIMDJSON_OK) {
        ondemand::document document;
        padded_string_view text(parser->source.get(), count, count + SIMDJSON_PADDING);
        auto error = parser->simd.iterate(text).get(document);
        status = error ? status_of(error) : parser->walk_root(document);
    }
    *result = {parser->nodes.get(), parser->node_count, parser->source.get(), parser->reached};
    return status;
}
