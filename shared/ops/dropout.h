// Inverted dropout (Srivastava et al. 2014, section 10) whose mask is a pure function of where a
// value is in the training: the same on any number of ranks and threads, in any batch and after
// a resume.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace retina {

// Choice of the masks: each layer and each step has its own.
struct DropoutDraw {
  std::uint64_t seed = 0;
  std::int64_t step = 0;  // global step, below 2^32
  int layer = 0;          // number of the layer in the network, below 2^16
};

// y = x keep / (1 - p): what is kept is scaled up, so that evaluation needs no change. The value
// number e of the image in slot s is kept where RandomStream{seed, kDropout, stream}.unit(place) is
// at least p:
//   stream  layer * 2^16 + s
//   place   step * 2^32 + e, e counted in row-major order of the image's sides, whatever the memory
// No two values share a number.
//   x     [N, ...] f32, f64, bf16 or f16 (the two scaled in f32), below 2^32 values an image, any
//         strides
//   p     share of the values that become 0, in 0 .. below 1; 0 returns x itself
//   slots [N] i64 on x's device: the images' slots in the global step, 0 to 65535 (believed)
// returns x's shape, type and memory format. NaN and infinity are not hidden: dropped, they are
// NaN. The gradient draws the mask anew: backward keeps the slots alone, and can be differentiated
// itself. Deterministic; a GPU gives the bits of a CPU (tests/gpu), and nothing waits for it.
// Equals the formula by RandomStream and central differences in f64 (tests/ops).
at::Tensor dropout(const at::Tensor& x, double p, const at::Tensor& slots, const DropoutDraw& draw);

}  // namespace retina
