// The depth of RetinaNet's two heads and of their normalisation. No LibTorch.
#pragma once

namespace retina {

constexpr int kHeadDepth = 4;    // 3x3 convolutions before the output (Lin et al. 2017, figure 3)
constexpr int kHeadGroups = 32;  // of GroupNorm (Wu & He 2018)

}  // namespace retina
