// From uint8 pixels to the network's input, as shared/image and the loader do it.
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

// Only the square's pixels are computed, from their four neighbours in the picture: a resize of the
// whole picture could be of any length. Coordinates are f64, as warp_normalise has them.
// ScalarTypes: 4 i64, 6 f32, 7 f64.
ScriptPart square_input_script(const ModelConfig& config) {
  ScriptPart part{.name = "input"};
  part.tensors = {{"mean", per_channel(config.image_mean)}, {"std", per_channel(config.image_std)}};
  const int side = config.min_side_px;
  part.source = "def places(self, side: int, shorter: int) -> Tuple[Tensor, Tensor, Tensor]:\n";
  part.line(cat("resized = ", config.max_side_px, " * side // shorter"));
  part.line(cat("spare = resized - ", side));
  // Halves to even.
  part.line("begin = spare // 2 + spare % 2 * (spare // 2 % 2)");
  part.line(cat("steps = torch.arange(", side, ", dtype=7, device=self.mean.device)"));
  part.line("at = (steps + (begin + 0.5)) * (side / resized) - 0.5");
  part.line("at = torch.clamp(at, min=0.0)");
  part.line("first = at.to(4)");
  part.line("second = torch.clamp(first + 1, max=side - 1)");
  part.line("return first, second, (at - first).to(6)");
  part.source += "\ndef forward(self, images: Tensor) -> Tensor:\n";
  part.line("shorter = min(images.size(2), images.size(3))");
  part.line("upper, lower, down = self.places(images.size(2), shorter)");
  part.line("left, right, across = self.places(images.size(3), shorter)");
  part.line("upper = upper.unsqueeze(1)");
  part.line("lower = lower.unsqueeze(1)");
  part.line("upper_left = images[:, :, upper, left].to(6)");
  part.line("lower_left = images[:, :, lower, left].to(6)");
  part.line("top = upper_left + (images[:, :, upper, right].to(6) - upper_left) * across");
  part.line("bottom = lower_left + (images[:, :, lower, right].to(6) - lower_left) * across");
  part.line("pixels = top + (bottom - top) * down.unsqueeze(1)");
  part.line("return (pixels / 255.0 - self.mean) / self.std");
  return part;
}

}  // namespace retina
