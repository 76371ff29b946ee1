// How fast a run was, in all and rank by rank: a slow rank shows, which the common step time hides.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/comm/communicator.h"

namespace retina {

class Throughput {
 public:
  // A step: its real images over all ranks, its whole time, and this rank's own part of it (without
  // waiting for other ranks) for `images_own` images.
  void add(int images_global, double step_ms, int images_own, double own_ms);

  // Lines for people; the first steps, where caches fill, are left out. Rank 0 gets the text, the
  // others nothing. Collective.
  std::string summary(Communicator& communicator) const;

 private:
  struct Step {
    int images_global = 0, images_own = 0;
    double step_ms = 0, own_ms = 0;
  };
  std::vector<Step> steps_;
};

// The text for given rates: `rates` has each rank's own images/s. Empty when there are none.
std::string throughput_text(double images_per_second, std::int64_t step_count,
                            const std::vector<double>& rates);

}  // namespace retina
