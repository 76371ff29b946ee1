// What decides which images make up which step, and how they are changed.
#pragma once

#include <cstdint>
#include <vector>

#include "train/augment/augmentation.h"

namespace retina {

// kGlobal: one permutation over everything. kSharded: slot s of every step reads lane s, a fixed
// range of the records in shard order, so each rank reads its own part of the shards alone.
enum class Shuffle { kGlobal, kSharded };

// How often an image comes in a pass: see sampler.h.
enum class Sampler { kUniform, kClassBalanced };

struct EpochPlanOptions {
  std::uint64_t seed = 0;
  int images_per_step = 16;  // the global step: all ranks, all accumulation passes
  Shuffle shuffle = Shuffle::kGlobal;
  Sampler sampler = Sampler::kUniform;
  double repeat_threshold = 0.001;  // kClassBalanced: classes in a lower share of images are rare
  Framing framing = Framing::kWhole;
  int min_side_px = 800, max_side_px = 1333;
  // Not empty: a step's min_side_px is drawn from these (multi-scale training).
  std::vector<int> min_sides_px = {};
  AugmentOptions augment = {};
};

}  // namespace retina
