// What a model said of images, drawn on them for people to look at.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "shared/coco/categories.h"
#include "shared/coco/results.h"
#include "shared/evaluation/score/class_outcome.h"
#include "shared/image/image.h"
#include "shared/shard/shard_set.h"

namespace retina {

struct DrawnImage {
  std::int64_t image_id = 0;
  std::string file_name{};
  int found_count = 0;   // detections drawn
  int object_count = 0;  // ground truth without crowds
  Image image{};
};

// Those of one image; `detections` ascending by image id.
std::span<const Detection> detections_of(std::int64_t image_id,
                                         const std::vector<Detection>& detections);

// Draws those of at least `score`, with name and score, the best on top; returns how many. `found`
// best first.
int draw_found(Image& image, std::span<const Detection> found, double score,
               const CategoryMap& categories);

struct DrawOptions {
  std::size_t count = 0;                                         // images at most
  double score = 0.4;                                            // detections below are not drawn
  std::vector<std::int64_t> first_ids = {};                      // these come first, in this order
  std::function<bool(std::int64_t image_id)> may_be_drawn = {};  // empty: all
};

// Calls `use` for images that have objects or detections worth drawing, the first by id unless
// `first_ids` says otherwise: detections with name and score, ground truth dashed. `detections`
// ascending by image id.
void draw_detections(const ShardSet& shards, const std::vector<Detection>& detections,
                     const DrawOptions& options, const std::function<void(const DrawnImage&)>& use);

// Calls `use` for the `count` most confident mistakes of a classifier, each image, enlarged where
// it is tiny, above its true class and the predicted one with its confidence.
void draw_mistakes(const ShardSet& shards, const std::vector<ClassOutcome>& outcomes,
                   std::size_t count, const std::function<void(const DrawnImage&)>& use);

}  // namespace retina
