// The in-order plan: every image of a set exactly once over all ranks, for evaluation.
#pragma once

#include <vector>

#include "shared/data/batch.h"
#include "shared/shard/shard_set.h"

namespace retina {

struct EvaluationPlanOptions {
  Framing framing = Framing::kWhole;
  int min_side_px = 800, max_side_px = 1333;
  int images_per_batch = 1;  // at most; only images of equal padded shape share a batch
  int rank = 0, rank_count = 1;
};

// The batches of one rank: a contiguous part of the index, each image padded to its own multiple of
// 32 px (co-batching with larger neighbours would move the anchors) or its middle square, grouped
// by shape in order.
std::vector<BatchRequest> plan_evaluation(const std::vector<IndexEntry>& index,
                                          const EvaluationPlanOptions& options);

}  // namespace retina
