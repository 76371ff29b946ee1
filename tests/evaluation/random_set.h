// Random scoring problems full of what detectors meet: ties, crowds, empty images, areas on the
// edge of a range, more than 100 detections an image, unknown categories, scores of 0 and below.
// golden/random_sets.py draws the same ones and has pycocotools' answers.
#pragma once

#include <cstdint>
#include <vector>

#include "shared/coco/instances.h"
#include "shared/coco/results.h"

namespace retina {

constexpr int kRandomSetCount = 200;
constexpr std::uint64_t kRandomSetSeed = 20261121;
constexpr std::int64_t kUnknownCategory = 999;

struct RandomSet {
  Instances truth{};
  std::vector<Detection> found{};
};

// Set `number` (those below kRandomSetCount have goldens), equal in every run, to the last bit.
RandomSet random_set(int number);

// Image i of the ascending ids `weights[i]` times, copies as neighbours.
RandomSet resampled(const RandomSet& set, const std::vector<std::uint32_t>& weights);

}  // namespace retina
