#pragma once
// OpenSSL 3. Swift cannot use macros, so those functions and constants have wrappers.
#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ocsp.h>
#include <openssl/params.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

static inline uint64_t parley_ssl_no_renegotiation(void) { return SSL_OP_NO_RENEGOTIATION; }
static inline uint64_t parley_ssl_no_compression(void) { return SSL_OP_NO_COMPRESSION; }
static inline long parley_ssl_context_set_mode(SSL_CTX *context, long mode) {
    return SSL_CTX_set_mode(context, mode);
}
static inline long parley_ssl_context_clear_mode(SSL_CTX *context, long mode) {
    return SSL_CTX_clear_mode(context, mode);
}
static inline int parley_ssl_context_set_versions(SSL_CTX *context, int lowest, int highest) {
    return SSL_CTX_set_min_proto_version(context, lowest)
        && SSL_CTX_set_max_proto_version(context, highest);
}
static inline int parley_ssl_context_set_groups(SSL_CTX *context, const char *groups) {
    return (int)SSL_CTX_set1_groups_list(context, groups);
}
static inline long parley_ssl_context_set_cache(SSL_CTX *context, long mode) {
    return SSL_CTX_set_session_cache_mode(context, mode);
}
static inline long parley_ssl_context_set_certificate_limit(SSL_CTX *context, long bytes) {
    return SSL_CTX_set_max_cert_list(context, bytes);
}
static inline int parley_ssl_context_add_chain(SSL_CTX *context, X509 *certificate) {
    return (int)SSL_CTX_add1_chain_cert(context, certificate);
}
static inline void parley_ssl_context_staple(
    SSL_CTX *context, int (*answer)(SSL *ssl, void *argument), void *argument) {
    SSL_CTX_set_tlsext_status_cb(context, answer);
    SSL_CTX_set_tlsext_status_arg(context, argument);
}
// The SSL object takes ownership of `bytes` and frees its previous response, with OPENSSL_free.
static inline long parley_ssl_set_staple(SSL *ssl, void *bytes, long count) {
    return SSL_set_tlsext_status_ocsp_resp(ssl, bytes, count);
}
static inline long parley_ssl_ask_for_staple(SSL *ssl) {
    return SSL_set_tlsext_status_type(ssl, TLSEXT_STATUSTYPE_ocsp);
}
static inline long parley_ssl_staple(SSL *ssl, unsigned char **bytes) {
    return SSL_get_tlsext_status_ocsp_resp(ssl, bytes);
}
static inline int parley_ssl_set_versions(SSL *ssl, int lowest, int highest) {
    return SSL_set_min_proto_version(ssl, lowest) && SSL_set_max_proto_version(ssl, highest);
}
static inline void *parley_openssl_copy(const void *bytes, size_t count) {
    return OPENSSL_memdup(bytes, count);
}
static inline int parley_ssl_set_server_name(SSL *ssl, const char *name) {
    return (int)SSL_set_tlsext_host_name(ssl, name);
}
static inline long parley_bio_memory(BIO *bio, char **bytes) {
    return BIO_get_mem_data(bio, bytes);
}
static inline void parley_bio_reset(BIO *bio) { (void)BIO_reset(bio); }
static inline void parley_bio_clear_retry(BIO *bio) { BIO_clear_retry_flags(bio); }
static inline void parley_bio_retry_read(BIO *bio) { BIO_set_retry_read(bio); }
static inline int parley_error_reason(unsigned long code) { return ERR_GET_REASON(code); }
static inline int parley_evp_public_key(void) { return EVP_PKEY_PUBLIC_KEY; }
