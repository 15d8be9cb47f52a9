// Who pays for what OpenSSL and libcurl allocate, for Sources/Server/NativeMemory.swift.
//
// Both libraries allocate through the functions here. A thread has at most one current owner, an
// account; a block that is allocated meanwhile is charged to it, and remembers it in its last eight
// bytes, so that whoever frees the block, wherever, credits the account that paid. Blocks without
// an owner belong to the shared account: contexts, caches, the libraries' own state.
//
// An account is charged what malloc takes for a block: its usable size and the eight bytes before
// it. Invariant: an account's bytes are the sum of its blocks, never negative.
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct parley_account parley_account;

/// An account of the calling thread, at zero; NULL without memory. Other threads may free blocks of
/// it, but only the calling thread may make it its owner, read it and close it.
parley_account *parley_account_open(void);

/// Ends an account. What is still charged to it moves to the shared account, and so do its credits
/// from then on. The pointer is not valid afterwards.
/// Returns the bytes that moved.
int64_t parley_account_close(parley_account *account);

/// What is charged to an account now.
int64_t parley_account_bytes(const parley_account *account);

/// What is charged to nobody in particular, in the whole process.
int64_t parley_shared_account_bytes(void);

/// Makes an account the calling thread's owner, or nobody: NULL. Returns who was it before.
parley_account *parley_owner_set(parley_account *account);

/// Lets libcurl allocate here; instead of curl_global_init, before any other call of it.
int parley_curl_global_init(long flags);

/// Whether OpenSSL allocates here. It does from the program's start, unless somebody was faster.
int parley_openssl_is_hooked(void);
