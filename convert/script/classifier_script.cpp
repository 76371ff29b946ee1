// The classifiers (shared/model/classifier.cpp) as TorchScript, after their input.
#include "convert/script/script_part.h"
#include "shared/base/cat.h"
#include "shared/model/resnet_shape.h"

namespace retina {
namespace {

// The mean over the pixels, and the last layer.
ScriptPart pooled_script(const Weights& weights) {
  ScriptPart part{.name = "classification"};
  part.source = "def forward(self, features: Tensor) -> Tensor:\n";
  part.line("pooled = torch.mean(features, [2, 3])");
  part.line("return " + part.linear("fc", weights.conv("fc"), "pooled"));
  return part;
}

ScriptPart cifar_body_script(const Weights& weights) {
  ScriptPart part{.name = "body"};
  part.source = "def forward(self, x: Tensor) -> Tensor:\n";
  for (int number = 1; number <= 4; ++number) {
    const bool ends_stage = number % 2 == 0;
    const std::string name = cat("conv", number);
    part.line("x = torch.relu_(" +
              part.conv(name, weights.conv(name), "x", {.padded = !ends_stage}) + ")");
    if (ends_stage) part.line("x = torch.max_pool2d(x, [2, 2], [2, 2])");
  }
  part.line("return x");
  return part;
}

ScriptPart cifar_classification_script(const Weights& weights) {
  ScriptPart part{.name = "classification"};
  part.source = "def forward(self, features: Tensor) -> Tensor:\n";
  part.line("x = torch.flatten(features, 1)");
  part.line("x = torch.relu_(" + part.linear("fc1", weights.conv("fc1"), "x") + ")");
  part.line("return " + part.linear("fc2", weights.conv("fc2"), "x"));
  return part;
}

}  // namespace

std::vector<ScriptPart> classifier_parts(const ModelConfig& config, const Weights& weights) {
  if (config.backbone == kCifarCnn) {
    return {cifar_body_script(weights), cifar_classification_script(weights)};
  }
  return {body_script(config, weights, /*body_prefix=*/""), pooled_script(weights)};
}

std::string classifier_source(const ModelConfig& config) {
  const bool pyramid = config.backbone != kCifarCnn;  // a ResNet gives more than is asked for
  return cat("def logits(self, images: Tensor) -> Tensor:\n", image_checks(), "    ",
             pyramid ? "c3, c4, features" : "features",
             " = self.body.forward(self.input.forward(images))\n"
             "    return self.classification.forward(features)\n"
             "\n"
             "def forward(self, images: Tensor) -> Tensor:\n"
             "    return torch.softmax(self.logits(images), 1)\n");
}

}  // namespace retina
