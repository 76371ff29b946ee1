// How often each image comes in a pass over the data: once, or more often where it has rare
// classes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shared/shard/image_index.h"
#include "train/plan/plan_options.h"

namespace retina {

// An image of a pass.
struct Draw {
  std::uint32_t record = 0;  // place in the image index
  std::uint32_t copy = 0;    // of this image in this pass, counted from 0
};

// The images of pass `epoch`, in the order of the index: a pure function of its arguments, of the
// same length in every pass.
//
// kUniform: each once. kClassBalanced: repeat-factor sampling (Gupta, Dollar, Girshick 2019,
// "LVIS", appendix B.2). With f(c) the share of images that hold class c and t the threshold, image
// I comes r(I) = max(1, max over its classes c of sqrt(t / f(c))) times a pass on average.
// Fractions are rounded by systematic sampling: one random offset for the whole pass, so that an
// image comes floor(r) or ceil(r) times and any run of neighbours its sum of r within one. That
// keeps lanes at fixed places of the shards. Where the sum of all r is no integer, one image drawn
// at random may come once more.
std::vector<Draw> draw_images(const std::vector<IndexEntry>& index, const EpochPlanOptions& options,
                              std::int64_t epoch);

// The length of that.
std::size_t draws_per_epoch(const std::vector<IndexEntry>& index, const EpochPlanOptions& options);

// Throws kConfig, beginning with `name`, where the index does not tell the classes of images.
void check_tells_classes(const std::vector<IndexEntry>& index, const std::string& name);

}  // namespace retina
