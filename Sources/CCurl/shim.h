#pragma once
// libcurl. Swift cannot call its variadic functions, so each has wrappers with typed arguments.
#include <curl/curl.h>

typedef size_t (*parley_curl_data_callback)(
    char *bytes, size_t size, size_t count, void *context);
typedef int (*parley_curl_socket_callback)(
    CURL *easy, curl_socket_t fd, int what, void *context, void *assigned);
typedef int (*parley_curl_timer_callback)(CURLM *multi, long milliseconds, void *context);

static inline CURLcode parley_curl_set_long(CURL *easy, CURLoption option, long value) {
    return (curl_easy_setopt)(easy, option, value);
}
static inline CURLcode parley_curl_set_pointer(CURL *easy, CURLoption option, const void *value) {
    return (curl_easy_setopt)(easy, option, value);
}
static inline void parley_curl_set_callbacks(
    CURL *easy, parley_curl_data_callback head, parley_curl_data_callback body, void *context) {
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, head);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, context);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, context);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, context);
}
typedef int (*parley_curl_seek_callback)(void *context, curl_off_t offset, int origin);
// A PUT of `size` bytes that `read` gives.
static inline void parley_curl_set_upload(
    CURL *easy, curl_off_t size, parley_curl_data_callback read, parley_curl_seek_callback seek,
    void *context) {
    curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, size);
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, read);
    curl_easy_setopt(easy, CURLOPT_READDATA, context);
    curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, seek);
    curl_easy_setopt(easy, CURLOPT_SEEKDATA, context);
}
// `progress` returns 1 to break the request off. The answer's body goes to `answer`.
static inline void parley_curl_set_exchange(
    CURL *easy, curl_xferinfo_callback progress, parley_curl_data_callback answer, void *context) {
    curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, progress);
    curl_easy_setopt(easy, CURLOPT_XFERINFODATA, context);
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, answer);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, context);
}
typedef int (*parley_curl_address_callback)(
    void *context, char *peer, char *local, int peer_port, int local_port);
static inline void parley_curl_set_address_rules(
    CURL *easy, curl_opensocket_callback open, parley_curl_address_callback check, void *context) {
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, context);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, check);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, context);
}
// The value of a field in the last response head; NULL if the field is absent.
static inline const char *parley_curl_header(CURL *easy, const char *name) {
    struct curl_header *field = NULL;
    if (curl_easy_header(easy, name, 0, CURLH_HEADER, -1, &field) != CURLHE_OK) return NULL;
    return field->value;
}
static inline CURLMcode parley_curl_multi_set_long(CURLM *multi, CURLMoption option, long value) {
    return (curl_multi_setopt)(multi, option, value);
}
static inline void parley_curl_multi_set_callbacks(
    CURLM *multi, parley_curl_socket_callback socket, parley_curl_timer_callback timer,
    void *context) {
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, socket);
    curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, context);
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, timer);
    curl_multi_setopt(multi, CURLMOPT_TIMERDATA, context);
}
static inline CURLcode parley_curl_info_long(CURL *easy, CURLINFO info, long *value) {
    return (curl_easy_getinfo)(easy, info, value);
}
static inline CURLcode parley_curl_info_offset(CURL *easy, CURLINFO info, curl_off_t *value) {
    return (curl_easy_getinfo)(easy, info, value);
}
static inline CURLcode parley_curl_info_socket(CURL *easy, curl_socket_t *value) {
    return (curl_easy_getinfo)(easy, CURLINFO_ACTIVESOCKET, value);
}
static inline CURLcode parley_curl_info_pointer(CURL *easy, CURLINFO info, void **value) {
    return (curl_easy_getinfo)(easy, info, value);
}
static inline CURLcode parley_curl_message_result(const CURLMsg *message) {
    return message->data.result;
}
