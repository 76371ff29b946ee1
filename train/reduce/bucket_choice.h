// How large the buckets of a job are: as the user says, as the run began with, or from what its
// links were measured to carry. Decided once, before the first step, the same on all ranks.
#pragma once

#include <optional>
#include <string>

#include "shared/comm/communicator.h"
#include "train/reduce/bucket_plan.h"
#include "train/reduce/link_model.h"
#include "train/reduce/wire.h"

namespace retina {

struct BucketOptions {
  std::size_t bucket_bytes = 0;  // on the wire; 0: from the measured link
  WireOptions wire = {};
  // Buckets travel while backward computes the others; false: after it. The sums are the same bits.
  bool overlap = true;
  // Used on rank 0: `to_json` of the run that continues. With 3 ranks or more the bits of a ring's
  // sum depend on the buckets, so they are taken as they were.
  std::string stored = {};
};

struct BucketChoice {
  enum class Origin { kAlone, kGiven, kStored, kMeasured };
  Origin origin = Origin::kAlone;
  int ranks = 1;
  WireOptions wire = {};
  BucketSize bytes = {};            // on the wire
  std::optional<RingFit> fit = {};  // where it was measured, now or by the stored run
};

// `element_count` of all gradients on rank 0. Measures for about a second at most, and only with
// ranks to measure. `stored` counts where ranks and wire are the same. Collective.
BucketChoice choose_buckets(const BucketOptions& options, std::size_t element_count,
                            Communicator& communicator);

// For the run's folder: read again as BucketOptions::stored.
std::string to_json(const BucketChoice& choice, const BucketPlan& plan);

// "gradients: 21.1 M values in 24 buckets of 0.04 to 9.4 MB (bf16); 0.21 ms and 47.9 MB/s
// measured".
std::string describe(const BucketChoice& choice, const BucketPlan& plan);

}  // namespace retina
