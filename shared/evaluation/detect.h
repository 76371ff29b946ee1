// Detection over a data set: records -> decode threads -> detector -> COCO results. Batches are
// formed over the whole set before ranks share them, so that the results do not depend on the
// number of ranks.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "shared/coco/results.h"
#include "shared/comm/communicator.h"
#include "shared/evaluation/detector.h"
#include "shared/shard/shard_set.h"

namespace retina {

struct DetectOptions {
  int images_per_batch = 1;     // upper bound; only images of one input shape share a batch
  int decode_threads = 2;       // per rank
  int batches_in_flight = 4;    // prepared and waiting, per rank: bounds the memory
  std::int64_t max_images = 0;  // only the first so many of the data set; 0: all
  // Called on the calling thread after each batch with the images done so far on this rank.
  std::function<void(std::int64_t done, std::int64_t total)> on_progress = {};
};

// Places in `ShardSet::index()` that one call of `Detector::find` gets.
using DetectionBatch = std::vector<std::size_t>;

// Every image once, in batches of one input shape, in ascending place order of their first image.
std::vector<DetectionBatch> plan_detection(const std::vector<IndexEntry>& index,
                                           const Detector& detector, const DetectOptions& options);

// Detections of these batches on this process. Throws kData when a record is damaged or its JPEG
// does not decode.
std::vector<Detection> detect_batches(Detector& detector, const ShardSet& shards,
                                      const std::vector<DetectionBatch>& batches,
                                      const DetectOptions& options);

// Detections of the whole data set, each rank a share; collective. Rank 0 gets all, in ascending
// image id order and best first, the others get none.
std::vector<Detection> detect(Detector& detector, const ShardSet& shards, Communicator& ranks,
                              const DetectOptions& options);

}  // namespace retina
