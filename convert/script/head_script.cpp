// The two heads (shared/model/heads.cpp) as TorchScript.
#include "convert/script/script_part.h"
#include "shared/base/cat.h"
#include "shared/model/heads.h"
#include "shared/model/tensor_names.h"

namespace retina {
namespace {

struct HeadNames {
  std::string part;    // of the submodule
  std::string prefix;  // of the tensors
  std::string output;  // of the last convolution
};

ScriptPart head_script(const ModelConfig& config, const Weights& weights, const HeadNames& names,
                       int values_per_anchor) {
  const bool normalised = config.head_norm == HeadNorm::kGroup;
  ScriptPart part{.name = names.part};
  part.source = "def forward(self, pyramid: List[Tensor]) -> List[Tensor]:\n";
  part.line("outputs: List[Tensor] = []");
  part.line("for x in pyramid:");
  for (int depth = 0; depth < kHeadDepth; ++depth) {
    const std::string prefix = cat(names.prefix, "conv.", depth);
    ConvWeights conv{.weight = weights.at(prefix + ".0.weight").contiguous()};
    conv.bias = normalised ? conv.weight.new_zeros({conv.weight.size(0)})
                           : weights.at(prefix + ".0.bias").contiguous();
    part.line("    x = " + part.conv(cat("conv", depth), conv, "x"));
    if (normalised) {
      const std::string norm = cat("norm", depth);
      part.tensors.push_back({norm + "_weight", weights.at(prefix + ".1.weight")});
      part.tensors.push_back({norm + "_bias", weights.at(prefix + ".1.bias")});
      part.line(cat("    x = torch.group_norm(x, ", kHeadGroups, ", self.", norm, "_weight, self.",
                    norm, "_bias, 1e-05)"));
    }
    part.line("    x = torch.relu_(x)");
  }
  part.line("    x = " + part.conv("output", weights.conv(names.prefix + names.output), "x"));
  part.line(cat("    outputs.append(x.permute([0, 2, 3, 1]).reshape([x.size(0), -1, ",
                values_per_anchor, "]))"));
  part.line("return outputs");
  return part;
}

}  // namespace

ScriptPart classification_script(const ModelConfig& config, const Weights& weights) {
  return head_script(config, weights,
                     {.part = "classification", .prefix = kClassHeadPrefix, .output = kClassLayer},
                     config.class_count);
}

ScriptPart regression_script(const ModelConfig& config, const Weights& weights) {
  return head_script(config, weights,
                     {.part = "regression", .prefix = kBoxHeadPrefix, .output = kBoxLayer}, 4);
}

}  // namespace retina
