// Guards against silent drift: after the same updates all ranks must hold the same bits, or a
// processor, a memory or a program has failed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/comm/communicator.h"
#include "train/step/replica.h"

namespace retina {

// Describes the differences between the ranks' hashes; empty when they are equal. Names the ranks
// that differ from most: "rank 2 holds different weights from ranks 0, 1, 3".
std::string drift_text(const std::vector<std::uint64_t>& hash_of_rank);

// Compares `hash`, of all that this rank holds after `step` updates, with that of the others.
// Collective. Throws Error{kRankFailure} naming step and ranks on rank 0; the others wait for the
// end of the job.
void check_replicas(Communicator& communicator, std::uint64_t hash, std::int64_t step);

// Runs the check every `period` steps and before each checkpoint, once a step; 0: never.
class ReplicaChecks {
 public:
  explicit ReplicaChecks(std::int64_t period) : period_(period) {}

  void after_step(std::int64_t step, Replica& replica, Communicator& communicator);
  void before_save(std::int64_t step, Replica& replica, Communicator& communicator);

 private:
  std::int64_t period_, checked_step_ = 0;
};

}  // namespace retina
