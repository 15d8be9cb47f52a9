#pragma once
// libyaml: the reader of the configuration file.
#include <yaml.h>
