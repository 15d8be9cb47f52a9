#pragma once
// libpq, the client of PostgreSQL.
#include <libpq-fe.h>
