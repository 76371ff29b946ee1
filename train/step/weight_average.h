// An exponential moving average of the weights (Polyak & Juditsky 1992; the form of Tarvainen &
// Valpola 2017): often a better model than the last step's, and a smoother AP curve.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "shared/checkpoint/checkpoint.h"
#include "shared/model/network.h"

namespace retina {

class WeightAverage {
 public:
  // Averages every parameter and running statistic of the network. 0 < decay < 1.
  WeightAverage(const Network& network, double decay);

  // Updates the averages after update number `step` (from 1): average = d average + (1 - d) weights
  // with d = min(decay, (1 + step) / (10 + step)), so that early steps do not hold the average
  // back.
  void update(std::int64_t step);

  // Makes the averages equal to the weights.
  void reset();

  // Exchanges weights and averages in place: the model computes with the averages until the next
  // call. Nothing else may refer to the values meanwhile.
  void swap();

  // Returns the averages by the model's names; no copies.
  NamedTensors state() const;

 private:
  double decay_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> weights_, averages_;
};

// Makes the averages the network's weights while this lives; null: does nothing.
class AverageScope {
 public:
  explicit AverageScope(WeightAverage* average) : average_(average) {
    if (average_ != nullptr) average_->swap();
  }
  ~AverageScope() {
    if (average_ != nullptr) average_->swap();
  }
  AverageScope(const AverageScope&) = delete;
  AverageScope& operator=(const AverageScope&) = delete;

 private:
  WeightAverage* average_;
};

}  // namespace retina
