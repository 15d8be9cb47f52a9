#pragma once
// flite. Its voices are separate libraries, opened at run time.
#include <flite/flite.h>
