// Widths and depths of RetinaNet's pyramid and its two heads. No LibTorch.
#pragma once

namespace retina {

constexpr int kPyramidChannels = 256;  // of P3..P7 and of the heads
constexpr int kHeadDepth = 4;    // 3x3 convolutions before the output (Lin et al. 2017, figure 3)
constexpr int kHeadGroups = 32;  // of GroupNorm (Wu & He 2018)

}  // namespace retina
