// What forward passes move in a network whose batch norm is trained: its running statistics.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "shared/model/network.h"

namespace retina {

// The statistics of a network, and a copy of them. Nothing where batch norm is frozen.
class BatchStatistics {
 public:
  explicit BatchStatistics(const Network& network);

  // A GPU does either while the caller goes on.
  void keep();
  void restore();  // what `keep` saw last

 private:
  // Of one type, which the device copies together.
  struct Group {
    std::vector<at::Tensor> values, kept;
  };
  std::vector<Group> groups_;
};

}  // namespace retina
