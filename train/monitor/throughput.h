// Measures the speed of a run, in all and rank by rank: this shows a slow rank, which the common
// step time hides.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/comm/communicator.h"
#include "train/monitor/metrics_log.h"
#include "train/scaling/scaling_report.h"

namespace retina {

class Throughput {
 public:
  // Adds a step as this rank saw it.
  void add(const StepMetrics& metrics);

  // Returns lines for the user; the first steps, while caches fill, do not count. Rank 0 gets the
  // text, the others nothing. Collective.
  std::string summary(Communicator& communicator) const;

  // Returns the same steps for a scaling report, the same on every rank. `bucket_bytes` are those
  // of the gradients, which may travel in a shorter type. Collective.
  ScalingRun scaling_run(Communicator& communicator, std::vector<double> bucket_bytes) const;

 private:
  struct Step {
    std::int64_t images_global = 0;
    int images_own = 0;
    double step_ms = 0, own_ms = 0, comm_ms = 0, comm_bytes = 0, overlap_ms = 0;
  };
  // Returns the steps with warm caches.
  std::vector<Step> measured_steps() const;
  std::vector<Step> steps_;
};

// Returns the text for given rates: `rates` has each rank's own images/s. Empty when there are
// none.
std::string throughput_text(double images_per_second, std::int64_t step_count,
                            const std::vector<double>& rates);

}  // namespace retina
