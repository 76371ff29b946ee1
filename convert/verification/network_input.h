// An image as the detector's network takes it, by the loader's own resize.
#pragma once

#include <ATen/core/Tensor.h>

#include "shared/anchor/anchor.h"
#include "shared/image/image.h"
#include "shared/model/config.h"

namespace retina {

struct VerificationPixels {
  at::Tensor pixels;  // [1, 3, padded] f32
  PixelSize size;     // without padding
  PixelSize padded;
};

VerificationPixels network_input(const Image& image, const ModelConfig& config);

}  // namespace retina
