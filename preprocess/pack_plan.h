// From the annotations to a fixed order of images: what coco-pack works through.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "preprocess/options.h"
#include "shared/coco/categories.h"
#include "shared/coco/instances.h"
#include "shared/image/resize.h"
#include "shared/shard/record.h"

namespace retina {

// An image that the annotations list, with its boxes under dense labels, or with its class.
struct PlannedImage {
  std::int64_t id = 0;
  std::string file_name{};
  // What the annotations say; unset: nothing, the image is as large as it is.
  std::optional<ImageSize> stated_size{};
  std::vector<RecordAnnotation> annotations{};  // in the file's order
  std::optional<int> label{};                   // in a classification set
};

struct PackPlan {
  // A fixed permutation of the file's order (Philox, seed 0): neighbours in COCO files look alike,
  // and a shard should be a fair sample.
  std::vector<PlannedImage> images{};
  CategoryMap categories{};
};

// Drops the images that do not belong to the side, and their boxes or classes (`image_labels`,
// empty where there are none). Where one of the two sets would be empty, the image whose place is
// nearest to the share goes there, which the log says for `name`. Throws kConfig, beginning with
// `name`, when there is only one image file.
void keep_side(Instances& instances, std::vector<int>& image_labels, const SplitSide& side,
               const std::string& name);

// `image_labels`: of a classification set, the class of each image; else empty.
PackPlan make_pack_plan(Instances instances, const std::vector<int>& image_labels);

// Which places of the plan are a part's, [first, second): of N parts, the first has the first Nth,
// and so on. Part of the format of interrupted sets; never change it.
std::pair<std::size_t, std::size_t> range_of_part(std::size_t image_count, const PackPart& part);

// Moves the images of a part out of the plan. The others are not touched: processes of --parts
// share their memory.
PackPlan take_part(PackPlan& plan, const PackPart& part);

}  // namespace retina
