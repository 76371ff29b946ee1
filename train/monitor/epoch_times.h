// Records where the time of an epoch goes, rank by rank. Closed at each epoch's end, and where a
// run ends within one.
#pragma once

#include <cstdint>

#include "shared/comm/communicator.h"
#include "train/monitor/metrics_log.h"
#include "train/monitor/rank_times.h"
#include "train/run/training_state.h"

namespace retina {

struct EpochPoint {
  std::int64_t step = 0, epoch = 0;
  // Steps of the epoch except skipped ones. 0: its last step is not done.
  std::int64_t update_count = 0;
};

// Returns the point of `step`: in the epoch that it ends, or else in the one in progress.
EpochPoint epoch_point(std::int64_t step, std::int64_t steps_per_epoch, const Rollback& rollback);

class EpochTimes {
 public:
  // Adds a step as this rank saw it.
  void add(const StepMetrics& metrics);

  // Writes the epoch's line into `log` (null: none) and warns of a rank that holds up the others,
  // both on rank 0. Collective.
  void close(Communicator& communicator, const EpochPoint& point, MetricsLog* log);

 private:
  RankLedger ledger_;
};

}  // namespace retina
