// Validation during training: all ranks detect, rank 0 scores.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/comm/communicator.h"
#include "shared/evaluation/detect.h"
#include "shared/evaluation/metrics.h"
#include "shared/model/retinanet.h"
#include "shared/report/report.h"
#include "shared/shard/shard_set.h"

namespace retina {

class Validation {
 public:
  // `shards` must outlive this. `options.max_images` restricts it to the first images.
  Validation(const ShardSet& shards, DetectOptions options);

  // False, on all ranks, when a stop signal came to any of them before the last image: then the
  // rest is left out, and there is nothing to score. Collective.
  bool detect(RetinaNet& model, Communicator& communicator);

  // What `detect` found: the metrics; rank 0.
  CocoMetrics score();

  // The last detections drawn on the first `count` images worth it; rank 0.
  std::vector<Picture> pictures(std::size_t count) const;

 private:
  const ShardSet& shards_;
  DetectOptions options_;
  std::optional<Instances> truth_;  // read once, on rank 0
  std::vector<Detection> detections_;
};

}  // namespace retina
