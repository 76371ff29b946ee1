// A batch's images as they were decoded -> the network's input, where the network computes:
// mirror, resize or warp, colours, normalise, pad, in one kernel. A quarter of the bytes of ready
// f32 images travel to a GPU, and no CPU resizes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "shared/image/resample.h"
#include "shared/image/resize.h"

namespace retina {

// Properties that all images of the result share.
struct PreparedImages {
  ImageSize padded = {};  // H, W of the result
  Normalisation normalisation = {};
  // Or kBFloat16, kHalf: the f32 values, rounded to nearest even.
  at::ScalarType type = at::kFloat;
};

//   block  [B] u8: the images' pixels, one after the other
//   rows   [N * sizeof(ImageRow)] u8: an ImageRow an image, on the block's device
// returns [N, 3, H, W] in channels-last memory. No gradient. f32 has the bits of resize_normalise
// and warp_normalise (tests/ops/prepare_images_test.cpp), on GPUs too. What a row says of its
// image is believed.
at::Tensor prepare_images(const at::Tensor& block, const at::Tensor& rows,
                          const PreparedImages& images);

}  // namespace retina
