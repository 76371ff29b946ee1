// Keeps and restores the running statistics of a trained batch norm, which forward passes change.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "shared/model/network.h"

namespace retina {

// The statistics of a network, and a copy of them. Empty where batch norm is frozen.
class BatchStatistics {
 public:
  explicit BatchStatistics(const Network& network);

  // Copies the statistics, or restores them. On a GPU neither waits for the device.
  void keep();
  void restore();  // to the state of the last `keep`

 private:
  // Tensors of one type, which the device copies together.
  struct Group {
    std::vector<at::Tensor> values, kept;
  };
  std::vector<Group> groups_;
};

}  // namespace retina
