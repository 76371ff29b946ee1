// Random images in one block, resized, mirrored or warped, as prepare_images takes them.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "shared/image/image.h"
#include "shared/image/resample.h"
#include "shared/image/warp.h"

namespace retina {

struct TestBatch {
  std::vector<Image> images = {};
  std::vector<Warp> warps = {};  // as many
  std::vector<ImageRow> rows = {};
  at::Tensor block() const;
  at::Tensor table() const;
};

// Of sides 1 to 200 px, for a padded size of at least 160 x 128 px.
TestBatch test_batch(bool warped);

}  // namespace retina
