// Decides which images make up each step, and how often each occurs in an epoch: once, or more
// often where it has rare classes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shared/shard/image_index.h"
#include "train/augment/augmentation.h"

namespace retina {

// kGlobal: one permutation over everything. kSharded: slot s of every step reads lane s, a fixed
// range of the records in shard order, so each rank reads only its own part of the shards.
enum class Shuffle { kGlobal, kSharded };

// Rule for how often an image occurs in an epoch: see draw_images.
enum class Sampler { kUniform, kClassBalanced };

struct EpochPlanOptions {
  std::uint64_t seed = 0;
  int images_per_step = 16;  // the global step: all ranks, all micro-batches
  Shuffle shuffle = Shuffle::kGlobal;
  Sampler sampler = Sampler::kUniform;
  double repeat_threshold = 0.001;  // kClassBalanced: classes in a lower share of images are rare
  FrameRule frame = {};
  // If not empty, a step's frame.min_side_px is drawn from these (multi-scale training).
  std::vector<int> min_sides_px = {};
  AugmentOptions augment = {};
};

// One occurrence of an image in an epoch.
struct Draw {
  std::uint32_t record = 0;  // index of the record in the image index
  std::uint32_t copy = 0;    // number of this occurrence of the image in the epoch, from 0
};

// Draws the images of an epoch of the data, in the order of the index: a pure function of its
// arguments, of the same length in every epoch.
//
// kUniform: each once. kClassBalanced: repeat-factor sampling (Gupta, Dollar, Girshick 2019,
// "LVIS", appendix B.2). With f(c) the share of images that hold class c and t the threshold, image
// I occurs r(I) = max(1, max over its classes c of sqrt(t / f(c))) times an epoch on average.
// Fractions are rounded by systematic sampling: one random offset for the whole epoch, so that an
// image occurs floor(r) or ceil(r) times and any run of neighbours its sum of r within one. That
// keeps lanes at fixed places of the shards. If the sum of all r is not an integer, one image drawn
// at random may occur once more.
std::vector<Draw> draw_images(const ImageIndex& index, const EpochPlanOptions& options,
                              std::int64_t epoch);

// Returns the length of the result of draw_images.
std::size_t draws_per_epoch(const ImageIndex& index, const EpochPlanOptions& options);

}  // namespace retina
