// From uint8 pixels to the network's input, as shared/image/resize.h and the loader do it.
#include <ATen/ops/tensor.h>

#include "convert/script/script_part.h"
#include "shared/anchor/anchor.h"
#include "shared/base/cat.h"

namespace retina {
namespace {

// [1, 3, 1, 1] f32.
at::Tensor per_channel(const std::array<double, 3>& values) {
  return at::tensor(at::ArrayRef<double>(values), at::kFloat).view({1, 3, 1, 1});
}

}  // namespace

ScriptPart input_script(const ModelConfig& config) {
  ScriptPart part{.name = "input"};
  part.tensors = {{"mean", per_channel(config.image_mean)}, {"std", per_channel(config.image_std)}};
  part.source = "def resized_size(self, height: int, width: int) -> List[int]:\n";
  part.line(cat("scale = min(", config.min_side_px, " / min(height, width), ", config.max_side_px,
                " / max(height, width))"));
  part.line("return [max(1, int(height * scale)),");
  part.line("        max(1, int(width * scale))]");
  part.source += "\ndef forward(self, images: Tensor, size: List[int]) -> Tensor:\n";
  // ScalarType 6 is f32: define() knows no torch.float32.
  part.line("pixels = (images.to(6) / 255.0 - self.mean) / self.std");
  part.line("pixels = torch.upsample_bilinear2d(pixels, size, False)");
  part.line(
      cat("bottom = (", kPadMultiplePx, " - size[0] % ", kPadMultiplePx, ") % ", kPadMultiplePx));
  part.line(
      cat("right = (", kPadMultiplePx, " - size[1] % ", kPadMultiplePx, ") % ", kPadMultiplePx));
  part.line("return torch.constant_pad_nd(pixels, [0, right, 0, bottom], 0.0)");
  return part;
}

}  // namespace retina
