// The feature pyramid (shared/model/fpn.cpp) as TorchScript.
#include "convert/script/script_part.h"

#include "shared/model/tensor_names.h"

namespace retina {

ScriptPart pyramid_script(const ModelConfig& config, const Weights& weights) {
  ScriptPart part{.name = "pyramid"};
  const std::string& fpn = kFpnPrefix;
  const auto inner = [&](const std::string& level, const std::string& input) {
    return part.conv("inner" + level, weights.conv(fpn + "inner_blocks." + level + ".0"), input);
  };
  const auto output = [&](const std::string& level, const std::string& input) {
    return part.conv("layer" + level, weights.conv(fpn + "layer_blocks." + level + ".0"), input);
  };
  part.source = "def forward(self, c3: Tensor, c4: Tensor, c5: Tensor) -> List[Tensor]:\n";
  part.line("top = " + inner("2", "c5"));
  part.line("p5 = " + output("2", "top"));
  part.line("side = " + inner("1", "c4"));
  part.line("top = side + torch.upsample_nearest2d(top, [side.size(2), side.size(3)])");
  part.line("p4 = " + output("1", "top"));
  part.line("side = " + inner("0", "c3"));
  part.line("top = side + torch.upsample_nearest2d(top, [side.size(2), side.size(3)])");
  part.line("p3 = " + output("0", "top"));
  part.line("p6 = " + part.conv("p6", weights.conv(fpn + "extra_blocks.p6"),
                                config.p6_from_c5 ? "c5" : "p5", {.stride = 2}));
  part.line("p7 = " + part.conv("p7", weights.conv(fpn + "extra_blocks.p7"), "torch.relu(p6)",
                                {.stride = 2}));
  part.line("return [p3, p4, p5, p6, p7]");
  return part;
}

}  // namespace retina
