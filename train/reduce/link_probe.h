// Measures all-reduces over the links of a job: what `fit_ring` (link_model.h) fits.
#pragma once

#include <cstddef>
#include <vector>

#include "shared/comm/communicator.h"
#include "train/reduce/link_model.h"

namespace retina {

struct ProbeOptions {
  std::vector<std::size_t> sizes_bytes = {};  // of a rank's buffer; rounded down to whole elements
  int repeats = 5;
  int warm_ups = 1;  // before each size: connections, first touch of memory
  ElementType type = ElementType::kFloat32;
  bool ordered = false;  // all_reduce_ordered
};

// One sample a size and repeat, sizes in the order of the options: the time of the slowest rank, so
// all ranks return the same. A barrier before each keeps ranks' delays out. Time is that of
// `communicator.stats()`. Collective.
std::vector<AllReduceSample> measure_all_reduce(Communicator& communicator,
                                                const ProbeOptions& options);

struct LinkProbe {
  ElementType type = ElementType::kFloat32;
  bool ordered = false;
  double budget_seconds = 1;
};

// Fits the link of this job in about `budget_seconds`: sizes from 4 KiB to at most 16 MiB, each
// twice the one before, as the budget allows, at least two; then downwards again to a 64th, each
// several times, which is what is fitted; the latency is at least that of 8 bytes. The same on all
// ranks. Requires 2 ranks or more. Collective.
RingFit probe_link(Communicator& communicator, const LinkProbe& probe);

}  // namespace retina
