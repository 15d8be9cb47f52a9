#pragma once
// The C API of sherpa-onnx. Its header and libraries come with `make models`; the libraries are
// opened at run time, so that a server without speech models neither needs nor loads them.
#include "../../models/sherpa-onnx/include/sherpa-onnx/c-api/c-api.h"
