// The images that a converted model is compared on.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "shared/anchor/anchor.h"
#include "shared/image/image.h"

namespace retina {

// Images of several shapes and contents, always the same: gradients, boxes and noise.
std::vector<Image> generated_images(int count);

// `count` images spread over a data set (all, when it has fewer). Throws as ShardSet does, and
// kData for a record whose JPEG does not decode.
std::vector<Image> shard_images(const std::string& shards, int count);

// `image` cut off to the right and below, or with black there, so that it has this size.
Image fitted(const Image& image, PixelSize size);

// What a converted model is given: [1, 3, H, W] uint8.
at::Tensor planes_of(const Image& image);

}  // namespace retina
