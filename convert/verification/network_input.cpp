#include "convert/verification/network_input.h"

#include <ATen/ops/zeros.h>

#include "shared/image/resize.h"

namespace retina {
namespace {

int padded(int side_px) {
  return (side_px + kPadMultiplePx - 1) / kPadMultiplePx * kPadMultiplePx;
}

}  // namespace

VerificationPixels network_input(const Image& image, const ModelConfig& config) {
  const ResizedSize size =
      resized_size(image.width, image.height, config.min_side_px, config.max_side_px);
  const PixelSize pad{.height = padded(size.height), .width = padded(size.width)};
  at::Tensor pixels = at::zeros({1, 3, pad.height, pad.width}, at::kFloat);
  resize_normalise(image,
                   {.width = size.width,
                    .height = size.height,
                    .row_stride = pad.width,
                    .plane_stride = std::int64_t{pad.width} * pad.height},
                   config.normalisation(), pixels.mutable_data_ptr<float>());
  return {.pixels = pixels, .size = {.height = size.height, .width = size.width}, .padded = pad};
}

}  // namespace retina
