// The images that a converted model is compared on.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "shared/anchor/anchor.h"
#include "shared/image/image.h"
#include "shared/model/config.h"

namespace retina {

// Returns images of several shapes and contents, always the same: gradients, boxes and noise.
std::vector<Image> generated_images(int count);

// Returns `count` images spread over a data set (all, when it has fewer). Throws as ShardSet does,
// and kData for a record whose JPEG does not decode.
std::vector<Image> shard_images(const std::string& shards, int count);

// Returns the images in this size: cut off to the right and below, or with black there; unchanged
// where it is unset.
std::vector<Image> fitted(std::vector<Image> images, const std::optional<PixelSize>& size);

// Returns the input of a converted model: [1, 3, H, W] uint8.
at::Tensor planes_of(const Image& image);

// The input of the training model: the image as the loader prepares it for an evaluation.
struct NetworkInputPixels {
  at::Tensor pixels;  // [1, 3, padded] f32
  PixelSize size;     // without padding
  PixelSize padded;
};
NetworkInputPixels network_input(const Image& image, const ModelConfig& config);

}  // namespace retina
