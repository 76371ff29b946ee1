// From the COCO file to a fixed order of images: what coco-pack works through.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/coco/categories.h"
#include "shared/coco/instances.h"
#include "shared/shard/record.h"

namespace retina {

// An image that the annotation file lists, with its boxes under dense labels.
struct PlannedImage {
  ImageInfo info{};
  std::vector<RecordAnnotation> annotations{};  // in the file's order
};

struct PackPlan {
  // A fixed permutation of the file's order (Philox, seed 0): neighbours in COCO files look alike,
  // and a shard should be a fair sample.
  std::vector<PlannedImage> images{};
  CategoryMap categories{};
};

PackPlan make_pack_plan(Instances instances);

}  // namespace retina
