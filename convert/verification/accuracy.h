// How good a converted model is on labelled images: what rounding it to 8 bits costs.
#pragma once

#include <cstdint>
#include <string>

#include "shared/evaluation/predict/converted_model.h"
#include "shared/shard/shard_set.h"

namespace retina {

struct Accuracy {
  std::string name{};  // "AP" of a detector, "top-1 accuracy" of a classifier
  double metric = 0;
  std::int64_t image_count = 0;
};

// Whether models with this header answer what can be scored: images of any size in, detections or
// classes out.
bool can_be_scored(const InferenceHeader& header);

// On the `image_count` images of lowest id. Throws kConfig when the set is for another task or
// has other classes, and as detect and classify do.
Accuracy accuracy_on(ConvertedModel model, const ShardSet& shards, int image_count);

}  // namespace retina
