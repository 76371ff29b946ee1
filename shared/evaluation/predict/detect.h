// Detection over images, a data set's or loose ones: images -> batches -> network -> COCO
// results in pixels of the original images. Batches are formed over all images before ranks share
// them, so that the results do not depend on the number of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "shared/coco/results.h"
#include "shared/comm/communicator.h"
#include "shared/data/image_source.h"
#include "shared/model/postprocess.h"
#include "shared/model/precision.h"
#include "shared/shard/shard_set.h"

namespace retina {

class RetinaNet;  // shared/model/retinanet.h

struct DetectOptions {
  PostprocessOptions postprocess = {};     // a converted model brings its own instead
  int images_per_batch = 1;                // at most; only images of one padded shape share a batch
  int decode_threads = 2;                  // per rank, at the start
  int most_decode_threads = 0;             // where it is more: added while the network waits
  int prefetch_batches = 4;                // decoded and waiting, per rank: bounds the memory
  std::int64_t max_images = 0;             // only the first N by id; 0: all
  Precision precision = Precision::kFp32;  // of convolutions; a converted model has its own
  // Called on the calling thread after each batch with this rank's images: done, to do.
  std::function<void(std::int64_t done, std::int64_t total)> on_progress = {};
  // Called on the calling thread for each image of this rank that the source leaves out; nothing
  // is detected on it.
  std::function<void(std::size_t place, const FileProblem& problem)> on_skipped = {};
  // Asked before each batch: true skips the rest of this rank's share (detect_share only).
  std::function<bool()> should_stop = {};
};

// Runs `model` over every one of `images` exactly once, each rank a share; collective. Rank 0
// gets all detections, in ascending image id order and best first, the others none. The model runs
// without gradients on the device of its parameters, in evaluation mode; its mode is restored.
// Each image is padded to its own multiple of 32: larger neighbours would move its anchors. Throws
// what the source throws (kData when a record is damaged).
std::vector<Detection> detect(RetinaNet& model, const ImageSource& source, Communicator& ranks,
                              const DetectOptions& options);

// Its first half: what this rank finds on its share, in the order of its batches; not collective.
std::vector<Detection> detect_share(RetinaNet& model, const ImageSource& source,
                                    Communicator& ranks, const DetectOptions& options);

// A batch is done: ranks that wait for this one see that it makes progress.
void tell_progress(Communicator& ranks);

// The images that `detect` would visit: all, or the first `max_images` by ascending id.
std::vector<IndexEntry> detected_images(const ShardSet& shards, const DetectOptions& options);

// All ranks' detections on rank 0 in ascending image id order, each image's order kept; nothing
// elsewhere. Collective. No image may be on two ranks.
std::vector<Detection> gather_detections(Communicator& ranks,
                                         const std::vector<Detection>& detections);

}  // namespace retina
