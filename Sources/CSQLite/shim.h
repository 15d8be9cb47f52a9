#pragma once
// SQLite, which keeps the records of conversations.
#include <sqlite3.h>

// SQLITE_TRANSIENT is a cast of a number to a function pointer, which Swift cannot import: SQLite
// copies the bytes before the call returns.
static inline int parley_sqlite_bind_text(
    sqlite3_stmt *statement, int index, const char *text, int count) {
    return sqlite3_bind_text(statement, index, text, count, SQLITE_TRANSIENT);
}
