// The in-order plan: every image of a set once, in batches, for evaluation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shared/data/batch.h"
#include "shared/shard/shard_set.h"

namespace retina {

struct EvaluationPlanOptions {
  FrameRule frame = {};
  bool keeps_sizes = false;  // images keep their stored sizes, `frame` is ignored
  int images_per_batch = 1;  // at most
  // At most, as stored, if a batch has several images; 0: no limit. For batches that hold decoded
  // images, which have any size.
  std::size_t stored_bytes_per_batch = 0;
  std::int64_t max_images = 0;      // only the first N by id; 0: all
  bool keeps_images_apart = false;  // tiles share batches with those of their own image only
};

// Returns the places in `index` of the images to visit, ascending: all, or the `max_images` of the
// lowest ids, each with all of its tiles.
std::vector<std::size_t> visited_places(const ImageIndex& index, std::int64_t max_images);

// Returns their number as text: "12 images", "340 tiles of 12 images".
std::string visited_text(const ImageIndex& index, std::int64_t max_images);

// Returns a warning for evaluations on a set whose packing left out tiles without boxes (TileRule's
// `empty`): a model's detections there would not count against it. "" if all tiles are there.
std::string left_out_tiles_text(const ShardSet& shards);

// Returns the batches, grouped by shape in the order of `index`: each image is padded to its own
// multiple of 32 px (co-batching with larger neighbours would move the anchors) or is its middle
// square, and only images of one padded shape share a batch; images that keep their sizes, only if
// these are equal. Each batch's part gives the number of images of all batches.
std::vector<BatchRequest> plan_evaluation(const ImageIndex& index,
                                          const EvaluationPlanOptions& options);

}  // namespace retina
