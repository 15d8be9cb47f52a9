#pragma once
// The C API of the ONNX runtime, as far as Parley's models need it. The library comes with
// `make models`, without a header. None is needed: `OrtGetApiBase` gives a table of functions, and
// the order of its entries never changes (the runtime only appends to it). Each function here is one
// entry under its own name.
//
// A status that is not NULL is an error, and must be released.
#include <stddef.h>
#include <stdint.h>

typedef struct parley_ort_status *parley_ort_status;
typedef struct parley_ort_environment *parley_ort_environment;
typedef struct parley_ort_options *parley_ort_options;
typedef struct parley_ort_session *parley_ort_session;
typedef struct parley_ort_memory *parley_ort_memory;
typedef struct parley_ort_value *parley_ort_value;
typedef struct parley_ort_run_options *parley_ort_run_options;
typedef struct parley_ort_shape *parley_ort_shape;
/// The table of functions.
typedef void *const *parley_ort;

/// The version of the table: that of runtime 1.17, which later ones still have.
enum { PARLEY_ORT_VERSION = 17 };
/// Types of a tensor's elements.
enum { PARLEY_ORT_FLOAT = 1, PARLEY_ORT_INT64 = 7 };

/// The table.
/// - Parameter base: the symbol OrtGetApiBase.
/// - Returns: NULL where the runtime is older.
static inline parley_ort parley_ort_open(void *base) {
    typedef struct {
        const void *(*table)(uint32_t version);
        const char *(*version)(void);
    } api_base;
    const api_base *found = ((const api_base *(*)(void))base)();
    return found ? (parley_ort)found->table(PARLEY_ORT_VERSION) : NULL;
}

static inline const char *parley_ort_message(parley_ort ort, parley_ort_status status) {
    return ((const char *(*)(parley_ort_status))ort[2])(status);
}

static inline void parley_ort_release_status(parley_ort ort, parley_ort_status status) {
    ((void (*)(parley_ort_status))ort[93])(status);
}

/// - Parameter severity: of the messages on standard error; 3: errors.
static inline parley_ort_status parley_ort_create_environment(
    parley_ort ort, int severity, const char *name, parley_ort_environment *environment) {
    typedef parley_ort_status (*function)(int, const char *, parley_ort_environment *);
    return ((function)ort[3])(severity, name, environment);
}

static inline parley_ort_status parley_ort_create_options(
    parley_ort ort, parley_ort_options *options) {
    return ((parley_ort_status (*)(parley_ort_options *))ort[10])(options);
}

/// The threads that one operation uses.
static inline parley_ort_status parley_ort_set_threads(
    parley_ort ort, parley_ort_options options, int count) {
    return ((parley_ort_status (*)(parley_ort_options, int))ort[24])(options, count);
}

/// No block is reserved for each length of input.
static inline parley_ort_status parley_ort_disable_memory_patterns(
    parley_ort ort, parley_ort_options options) {
    return ((parley_ort_status (*)(parley_ort_options))ort[17])(options);
}

/// Memory comes from the process's allocator, and goes back to it. The runtime's own keeps all.
static inline parley_ort_status parley_ort_disable_arena(
    parley_ort ort, parley_ort_options options) {
    return ((parley_ort_status (*)(parley_ort_options))ort[19])(options);
}

static inline void parley_ort_release_options(parley_ort ort, parley_ort_options options) {
    ((void (*)(parley_ort_options))ort[100])(options);
}

static inline parley_ort_status parley_ort_create_session(
    parley_ort ort, parley_ort_environment environment, const char *path,
    parley_ort_options options, parley_ort_session *session) {
    typedef parley_ort_status (*function)(
        parley_ort_environment, const char *, parley_ort_options, parley_ort_session *);
    return ((function)ort[7])(environment, path, options, session);
}

static inline void parley_ort_release_session(parley_ort ort, parley_ort_session session) {
    ((void (*)(parley_ort_session))ort[95])(session);
}

/// Memory of the process.
static inline parley_ort_status parley_ort_create_memory(
    parley_ort ort, parley_ort_memory *memory) {
    typedef parley_ort_status (*function)(int allocator, int type, parley_ort_memory *);
    return ((function)ort[69])(1, 0, memory);
}

/// A tensor of memory that the caller keeps until the tensor is released.
static inline parley_ort_status parley_ort_create_tensor(
    parley_ort ort, parley_ort_memory memory, void *data, size_t bytes, const int64_t *shape,
    size_t dimensions, int type, parley_ort_value *value) {
    typedef parley_ort_status (*function)(
        parley_ort_memory, void *, size_t, const int64_t *, size_t, int, parley_ort_value *);
    return ((function)ort[49])(memory, data, bytes, shape, dimensions, type, value);
}

/// What a run is told: here, only that it shall end.
static inline parley_ort_status parley_ort_create_run_options(
    parley_ort ort, parley_ort_run_options *options) {
    return ((parley_ort_status (*)(parley_ort_run_options *))ort[39])(options);
}

/// Ends the runs that have these options, with an error. Any thread.
static inline parley_ort_status parley_ort_interrupt(
    parley_ort ort, parley_ort_run_options options) {
    return ((parley_ort_status (*)(parley_ort_run_options))ort[46])(options);
}

static inline void parley_ort_release_run_options(
    parley_ort ort, parley_ort_run_options options) {
    ((void (*)(parley_ort_run_options))ort[97])(options);
}

/// Runs a model, and allocates its outputs.
/// - Parameters:
///   - options: may be NULL.
///   - results: a NULL for each wanted output.
static inline parley_ort_status parley_ort_run(
    parley_ort ort, parley_ort_session session, parley_ort_run_options options,
    const char *const *names, const parley_ort_value *inputs, size_t count,
    const char *const *outputs,
    size_t output_count, parley_ort_value *results) {
    typedef parley_ort_status (*function)(
        parley_ort_session, parley_ort_run_options, const char *const *, const parley_ort_value *,
        size_t, const char *const *, size_t, parley_ort_value *);
    return ((function)ort[9])(
        session, options, names, inputs, count, outputs, output_count, results);
}

static inline parley_ort_status parley_ort_data(
    parley_ort ort, parley_ort_value value, float **data) {
    return ((parley_ort_status (*)(parley_ort_value, float **))ort[51])(value, data);
}

static inline parley_ort_status parley_ort_shape_of(
    parley_ort ort, parley_ort_value value, parley_ort_shape *shape) {
    return ((parley_ort_status (*)(parley_ort_value, parley_ort_shape *))ort[65])(value, shape);
}

/// The type of a tensor's elements.
static inline parley_ort_status parley_ort_element_type(
    parley_ort ort, parley_ort_shape shape, int *type) {
    return ((parley_ort_status (*)(parley_ort_shape, int *))ort[60])(shape, type);
}

static inline parley_ort_status parley_ort_dimension_count(
    parley_ort ort, parley_ort_shape shape, size_t *count) {
    return ((parley_ort_status (*)(parley_ort_shape, size_t *))ort[61])(shape, count);
}

/// The lengths of a tensor's dimensions.
static inline parley_ort_status parley_ort_dimensions(
    parley_ort ort, parley_ort_shape shape, int64_t *lengths, size_t count) {
    return ((parley_ort_status (*)(parley_ort_shape, int64_t *, size_t))ort[62])(
        shape, lengths, count);
}

static inline void parley_ort_release_shape(parley_ort ort, parley_ort_shape shape) {
    ((void (*)(parley_ort_shape))ort[99])(shape);
}

static inline void parley_ort_release_value(parley_ort ort, parley_ort_value value) {
    ((void (*)(parley_ort_value))ort[96])(value);
}
