// JSON as the Python value that torch.load shows: objects become dicts, numbers ints and floats.
#pragma once

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

#include "shared/checkpoint/checkpoint.h"

namespace retina {

// Integers beyond 2^63-1 become decimal strings: the pickle's integers have 64 bits.
c10::IValue python_value(const std::string& json_text, const std::string& name);

// A dict with string keys in the given order.
c10::IValue python_dict(const NamedTensors& tensors);

// The categories as a list of dicts.
c10::IValue python_value(const Categories& categories);

}  // namespace retina
