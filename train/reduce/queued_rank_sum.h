// Sums that a layer needs in the middle of forward and backward (--sync-bn). They run on the thread
// of the gradient buckets, which alone may use the communicator while buckets travel.
#pragma once

#include <span>
#include <string>
#include <utility>

#include "shared/model/sync_norm.h"
#include "train/reduce/collective_queue.h"

namespace retina {

class QueuedRankSum : public RankSum {
 public:
  // `queue` must outlive this.
  explicit QueuedRankSum(CollectiveQueue& queue) : queue_(queue) {}

  // Sums after the buckets that are queued already, without waiting for later ones. Buckets leave
  // at fixed places of backward, so the order is the same on all ranks.
  void sum(std::span<double> values, const std::string& what) override;

  // Returns the time spent waiting in `sum` since the last call.
  double take_wait_seconds() { return std::exchange(wait_seconds_, 0.0); }

 private:
  CollectiveQueue& queue_;
  double wait_seconds_ = 0;
};

}  // namespace retina
