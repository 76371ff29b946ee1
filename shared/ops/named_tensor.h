// A tensor and what it is called: the currency between network, optimizer and checkpoint.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace retina {

struct NamedTensor {
  std::string name{};
  at::Tensor tensor{};
};

using NamedTensors = std::vector<NamedTensor>;

}  // namespace retina
