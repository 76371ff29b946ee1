// The ResNet (shared/model/resnet.cpp) as TorchScript, layer by layer.
#include "convert/script/script_part.h"
#include "shared/base/cat.h"
#include "shared/model/resnet_shape.h"

namespace retina {
namespace {

struct Block {
  std::string body_prefix;
  std::string place;  // "layer2.0"
  int stride;
  bool bottleneck, project;
};

// Writes one residual block: x -> x.
void add_block(ScriptPart& part, const ModelConfig& config, const Weights& weights,
               const Block& block) {
  const auto& [body_prefix, place, stride, bottleneck, project] = block;
  const std::string prefix = body_prefix + place;
  std::string name = place;
  name.replace(name.find('.'), 1, "_");
  const int conv_count = bottleneck ? 3 : 2;
  const int strided_conv = bottleneck ? 2 : 1;  // the first 3x3 (ResNet v1.5)
  const auto folded = [&](const std::string& conv, const std::string& norm) {
    return weights.folded(prefix + conv, prefix + norm, config.norm_eps);
  };
  part.line("# " + place);
  for (int conv = 1; conv <= conv_count; ++conv) {
    const std::string call =
        part.conv(cat(name, "_conv", conv), folded(cat(".conv", conv), cat(".bn", conv)),
                  conv == 1 ? "x" : "y", {.stride = conv == strided_conv ? stride : 1});
    part.line(conv == conv_count ? "y = " + call : "y = torch.relu_(" + call + ")");
  }
  if (project) {
    part.line("x = " + part.conv(name + "_downsample", folded(".downsample.0", ".downsample.1"),
                                 "x", {.stride = stride}));
  }
  part.line("x = torch.relu_(y + x)");
}

}  // namespace

ScriptPart body_script(const ModelConfig& config, const Weights& weights, const std::string& body) {
  ScriptPart part{.name = "body"};
  part.source = "def forward(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:\n";
  part.line("x = torch.relu_(" +
            part.conv("conv1", weights.folded(body + "conv1", body + "bn1", config.norm_eps), "x",
                      {.stride = 2}) +
            ")");
  part.line("x = torch.max_pool2d(x, [3, 3], [2, 2], [1, 1])");
  const ResNetShape shape = resnet_shape(config.backbone);
  for (int stage = 1; stage <= 4; ++stage) {
    const int block_count = shape.blocks[static_cast<std::size_t>(stage - 1)];
    for (int block = 0; block < block_count; ++block) {
      const bool first = block == 0;
      add_block(part, config, weights,
                {.body_prefix = body,
                 .place = cat("layer", stage, ".", block),
                 .stride = first && stage > 1 ? 2 : 1,
                 .bottleneck = shape.bottleneck,
                 .project = first && (stage > 1 || shape.bottleneck)});
    }
    if (stage > 1) part.line(cat("c", stage + 1, " = x"));
  }
  part.line("return c3, c4, c5");
  return part;
}

}  // namespace retina
