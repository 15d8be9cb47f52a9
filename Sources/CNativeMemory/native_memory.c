// The allocator behind the accounts of include/CNativeMemory.h: malloc's own blocks, eight bytes
// longer.
//
// The account's address is at the end of a block. A header would have to be 16 bytes for alignment,
// and OpenSSL has many small blocks. malloc_usable_size gives the end in every allocator that may
// replace glibc's.
//
// Nearly always the thread that opened an account uses it, which costs a load, an addition and a
// store. Other threads, and closing an account, take a lock.
// and a store. Others, and the end of an account, take a lock.
#include "CNativeMemory.h"

#include <curl/curl.h>
#include <malloc.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct parley_account {
    /// The thread that opened it, identified by an address of its own. NULL once closed.
    _Atomic(const void *) thread;
    /// Bytes charged and credited by that thread, which alone writes it.
    _Atomic int64_t own;
    /// Bytes credited by other threads, under the lock; after closing, by all threads.
    _Atomic int64_t foreign;
};

static _Thread_local parley_account *owner;
static _Thread_local char here;
static _Atomic int64_t shared;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int64_t balance(const parley_account *account) {
    return atomic_load_explicit(&account->own, memory_order_relaxed)
        + atomic_load_explicit(&account->foreign, memory_order_relaxed);
}

/// Charges a block of another thread, or of a closed account.
__attribute__((noinline)) static void charge_elsewhere(parley_account *account, int64_t bytes) {
    pthread_mutex_lock(&lock);
    atomic_fetch_add_explicit(&account->foreign, bytes, memory_order_relaxed);
    int is_closed = atomic_load_explicit(&account->thread, memory_order_relaxed) == NULL;
    if (is_closed) atomic_fetch_add_explicit(&shared, bytes, memory_order_relaxed);
    int is_over = is_closed && balance(account) == 0;
    pthread_mutex_unlock(&lock);
    if (is_over) free(account);
}

static inline void charge(parley_account *account, int64_t bytes) {
    if (account == NULL) {
        atomic_fetch_add_explicit(&shared, bytes, memory_order_relaxed);
    } else if (atomic_load_explicit(&account->thread, memory_order_relaxed) == &here) {
        // There is one writer, so no lock prefix is needed.
        int64_t own = atomic_load_explicit(&account->own, memory_order_relaxed);
        atomic_store_explicit(&account->own, own + bytes, memory_order_relaxed);
    } else {
        charge_elsewhere(account, bytes);
    }
}

#define TAIL sizeof(parley_account *)

static inline int64_t cost(size_t usable) { return (int64_t)(usable + sizeof(size_t)); }

static inline void *charged(void *block) {
    if (block == NULL) return NULL;
    parley_account *payer = owner;
    size_t usable = malloc_usable_size(block);
    memcpy((char *)block + usable - TAIL, &payer, TAIL);
    charge(payer, cost(usable));
    return block;
}

static void *allocate(size_t count) {
    if (count > PTRDIFF_MAX - TAIL) return NULL;
    return charged(malloc(count + TAIL));
}

static void release(void *block) {
    if (block == NULL) return;
    parley_account *payer;
    size_t usable = malloc_usable_size(block);
    memcpy(&payer, (char *)block + usable - TAIL, TAIL);
    charge(payer, -cost(usable));
    free(block);
}

/// A block stays with the account that it was charged to, however it grows.
static void *reallocate(void *block, size_t count) {
    if (block == NULL) return allocate(count);
    if (count > PTRDIFF_MAX - TAIL) return NULL;
    parley_account *payer;
    size_t before = malloc_usable_size(block);
    memcpy(&payer, (char *)block + before - TAIL, TAIL);
    char *moved = realloc(block, count + TAIL);
    if (moved == NULL) return NULL;
    size_t usable = malloc_usable_size(moved);
    memcpy(moved + usable - TAIL, &payer, TAIL);
    charge(payer, cost(usable) - cost(before));
    return moved;
}

parley_account *parley_account_open(void) {
    parley_account *account = malloc(sizeof *account);
    if (account == NULL) return NULL;
    atomic_init(&account->thread, &here);
    atomic_init(&account->own, 0);
    atomic_init(&account->foreign, 0);
    return account;
}

int64_t parley_account_close(parley_account *account) {
    if (owner == account) owner = NULL;
    pthread_mutex_lock(&lock);
    int64_t left = balance(account);
    atomic_fetch_add_explicit(&shared, left, memory_order_relaxed);
    atomic_store_explicit(&account->thread, NULL, memory_order_relaxed);
    pthread_mutex_unlock(&lock);
    if (left == 0) free(account);
    return left;
}

int64_t parley_account_bytes(const parley_account *account) { return balance(account); }

int64_t parley_shared_account_bytes(void) {
    return atomic_load_explicit(&shared, memory_order_relaxed);
}

parley_account *parley_owner_set(parley_account *account) {
    parley_account *before = owner;
    owner = account;
    return before;
}

// OpenSSL

static void *openssl_allocate(size_t count, const char *file, int line) {
    (void)file;
    (void)line;
    return allocate(count);
}
static void *openssl_reallocate(void *block, size_t count, const char *file, int line) {
    // CRYPTO_realloc(3): of nothing it allocates, to nothing it frees.
    if (count > 0) return reallocate(block, count);
    (void)file;
    (void)line;
    release(block);
    return NULL;
}
static void openssl_release(void *block, const char *file, int line) {
    (void)file;
    (void)line;
    release(block);
}

static int is_hooked;

/// Runs before any other code: OpenSSL accepts other functions only before its first allocation.
__attribute__((constructor)) static void hook_openssl(void) {
    is_hooked = CRYPTO_set_mem_functions(openssl_allocate, openssl_reallocate, openssl_release);
}

int parley_openssl_is_hooked(void) { return is_hooked; }

// libcurl

static void *allocate_zeros(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > PTRDIFF_MAX - TAIL) return NULL;
    return charged(calloc(1, bytes + TAIL));
}
static char *copy(const char *text) {
    size_t count = strlen(text) + 1;
    char *made = allocate(count);
    return made == NULL ? NULL : memcpy(made, text, count);
}

int parley_curl_global_init(long flags) {
    return curl_global_init_mem(flags, allocate, release, reallocate, copy, allocate_zeros);
}
