// Charges memory that OpenSSL and libcurl allocate to accounts, for Server's NativeMemory.
//
// Both libraries allocate through the functions here. A thread has at most one current account, its
// owner. A block that is allocated meanwhile is charged to that account and stores it in its last
// eight bytes, so that freeing the block on any thread credits the same account. Blocks without an
// owner belong to the shared account: contexts, caches, the libraries' own state.
//
// A block is charged at its size in malloc: the usable size and the eight bytes before it.
// Invariant: an account's bytes are the sum of its blocks, never negative.
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct parley_account parley_account;

/// Opens an account for the calling thread, at zero; NULL without memory. Other threads may free
/// its blocks. Only the calling thread may make it its owner, read it and close it.
parley_account *parley_account_open(void);

/// Closes an account. Its remaining bytes, and later credits, move to the shared account. The
/// pointer is invalid afterwards. Returns the bytes that moved.
int64_t parley_account_close(parley_account *account);

/// Bytes that are charged to an account now.
int64_t parley_account_bytes(const parley_account *account);

/// Bytes that are charged to the shared account, in the whole process.
int64_t parley_shared_account_bytes(void);

/// Makes an account the calling thread's owner; NULL for none. Returns the previous owner.
parley_account *parley_owner_set(parley_account *account);

/// Makes libcurl allocate here. Call it instead of curl_global_init, before any other function of
/// libcurl.
int parley_curl_global_init(long flags);

/// Whether OpenSSL allocates here: from the program's start, unless another library called OpenSSL
/// earlier.
int parley_openssl_is_hooked(void);
