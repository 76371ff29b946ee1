// How long a training step takes on n ranks, each with the same images: fitted to runs on a few
// numbers of ranks, predicted for any number.
//
//   step(n)    = C + exposed(n)
//   exposed(n) = max(ring(last bucket, n), sum over buckets ring(b, n) - W) + ceil(log2 n) · α
//   ring(b, n) = 2(n-1) · α + 2(n-1)/n · b/β                                     exposed(1) = 0
//
// C: a rank's own time. α, β: latency and bandwidth of a link (link_model.h). W: how long backward
// computes on after the first bucket has left; communication in that time costs nothing, but the
// last bucket leaves when backward ends. b: bytes of a bucket. The last term is the sum of the
// losses, a few bytes by recursive doubling. Not in the model: ranks of unequal speed, links that
// ranks share beyond what was measured, slower storage.
#pragma once

#include <optional>
#include <vector>

#include "train/reduce/link_model.h"

namespace retina {

// What was measured on one number of ranks. Times are of the median step.
struct ScalingPoint {
  int ranks = 1;
  double step_seconds = 0;
  double own_seconds = 0;                     // of the slowest rank: without waiting for sums
  double overlap_seconds = 0;                 // W
  double comm_seconds = 0;                    // the gradients' all-reduces
  std::vector<double> bucket_bytes = {};      // in the order in which they leave
  std::vector<AllReduceSample> samples = {};  // empty for one rank

  double exposed_seconds() const { return step_seconds - own_seconds; }
};

struct ScalingModel {
  double own_seconds = 0;      // C
  double overlap_seconds = 0;  // W
  std::vector<double> bucket_bytes = {};
  LinkFit links = {};  // α, β

  double exposed_seconds(int ranks) const;
  double step_seconds(int ranks) const { return own_seconds + exposed_seconds(ranks); }
};

// C and W: the median over the points, each of which measured them. α and β: `fit_links` over all
// samples. Nothing without a point of two ranks or more. Buckets are those of the point with most
// ranks.
std::optional<ScalingModel> fit_scaling(const std::vector<ScalingPoint>& points);

}  // namespace retina
