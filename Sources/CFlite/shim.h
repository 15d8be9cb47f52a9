#pragma once
// flite. Its voices are libraries of their own, opened at run time.
#include <flite/flite.h>
