// The widths of cifar-cnn (classifier.h). No LibTorch.
#pragma once

#include <array>
#include <cstdint>

namespace retina {

// Of its four 3x3 convolutions: the first and third are padded, a 2x2 pool follows the others.
constexpr std::array<int, 4> kCifarWidths = {32, 32, 64, 64};
constexpr int kCifarHidden = 512;  // between the two dense layers

// Numbers of the image after both pools: each unpadded convolution takes a pixel from each edge.
constexpr std::int64_t cifar_features(int side_px) {
  const int pooled = ((side_px - 2) / 2 - 2) / 2;
  return std::int64_t{kCifarWidths.back()} * pooled * pooled;
}

}  // namespace retina
