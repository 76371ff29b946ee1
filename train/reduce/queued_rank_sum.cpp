#include "train/reduce/queued_rank_sum.h"

#include <chrono>

namespace retina {

void QueuedRankSum::sum(std::span<double> values, const std::string& what) {
  const auto began = std::chrono::steady_clock::now();
  queue_.call([&](Communicator& communicator) {
    communicator.label(what);
    communicator.all_reduce(values.data(), values.size(), ElementType::kFloat64, ReduceOp::kSum);
  });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  wait_seconds_ += took.count();
}

}  // namespace retina
