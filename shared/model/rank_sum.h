// The seam through which a layer adds numbers over the ranks of a run in the middle of forward and
// backward. The model knows no communicator: the trainer gives it one of these.
#pragma once

#include <span>
#include <string>

namespace retina {

class RankSum {
 public:
  RankSum() = default;
  RankSum(const RankSum&) = delete;
  RankSum& operator=(const RankSum&) = delete;
  virtual ~RankSum() = default;

  // values[i] = sum over ranks of values[i], the same bits on every rank. Waits for the other
  // ranks: all call this in the same order with the same count. `what` names the sum in messages
  // about lost ranks, e.g. "layer1.0.bn1 forward". May be called on autograd's threads.
  virtual void sum(std::span<double> values, const std::string& what) = 0;
};

}  // namespace retina
