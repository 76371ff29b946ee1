#include "shared/model/classifier.h"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/max_pool2d.h>

#include <array>
#include <cmath>
#include <optional>

#include "shared/base/error.h"
#include "shared/model/body.h"
#include "shared/model/network_shape.h"
#include "shared/model/tensor_names.h"
#include "shared/ops/dropout.h"

namespace retina {
namespace {

// Computes y = x W^T + b: x [N, in] -> [N, out].
class Linear {
 public:
  Linear(const ModelScope& scope, std::int64_t in, std::int64_t out)
      : weight_(scope.parameter("weight", {out, in})), bias_(scope.parameter("bias", {out})) {}
  at::Tensor forward(const at::Tensor& input) const { return at::linear(input, weight_, bias_); }

 private:
  at::Tensor weight_, bias_;
};

// Returns the mean of each channel of a backbone's last feature map: [N, C].
at::Tensor pooled(const Body& body, const at::Tensor& images, const NormMode& mode) {
  return at::adaptive_avg_pool2d(body.forward(images, mode).back(), {1, 1}).flatten(1);
}

// A backbone with one dense layer, or with MobileNetV3's two, dropout of a fifth between them.
class BackboneClassifier : public Classifier {
 public:
  BackboneClassifier(const ModelConfig& config, const ClassifierPrefixes& prefixes)
      : Classifier(config, {.body = prefixes.body, .class_layer = prefixes.class_layer}),
        body_(make_body(scope(prefixes.body), config)) {
    int width = feature_channels(config.backbone).back();
    if (family_of(config.backbone) == BackboneFamily::kMobileNetV3) {
      hidden_.emplace(scope("classifier.0."), width, kMobileNetV3Hidden);
      width = kMobileNetV3Hidden;
    }
    last_.emplace(scope(prefixes.class_layer), width, config.class_count);
  }

  at::Tensor forward(const at::Tensor& images, const DropoutPlace& place) const override {
    constexpr double kDropout = 0.2;
    at::Tensor output = pooled(*body_, images, norm_mode());
    if (hidden_) output = at::hardswish(hidden_->forward(output));
    if (hidden_ && is_training()) {
      output = dropout(output, kDropout, place.slots,
                       {.seed = place.seed, .step = place.step, .layer = 0});
    }
    return last_->forward(output);
  }

  // Starts the last layer of a ResNet as torch.nn.Linear: uniform within 1 / sqrt(fan in), its bias
  // too; others as torchvision does.
  StartValue start_value(const std::string& name, const at::Tensor& like) const override {
    if (name.starts_with(body_prefix()) && !name.starts_with(class_layer())) {
      return body_start_value(name, like);
    }
    if (family_of(config().backbone) == BackboneFamily::kResNet) {
      const int fan_in = feature_channels(config().backbone).back();
      return {.kind = StartValue::Kind::kUniform, .scale = 1 / std::sqrt(fan_in)};
    }
    if (like.dim() < 2) return {};
    return {.kind = StartValue::Kind::kNormal, .scale = 0.01};
  }

 private:
  std::unique_ptr<Body> body_;
  std::optional<Linear> hidden_, last_;
};

constexpr std::size_t kCifarConvs = kCifarWidths.size();
constexpr double kConvDropout = 0.25, kHiddenDropout = 0.5;

ConvShape cifar_conv(std::size_t number) {  // from 0
  return {.in_channels = number == 0 ? 3 : kCifarWidths[number - 1],
          .out_channels = kCifarWidths[number],
          .kernel = 3,
          .same = number % 2 == 0};
}

class CifarCnn : public Classifier {
 public:
  explicit CifarCnn(const ModelConfig& config)
      : Classifier(config, {.class_layer = "fc2."}),
        convs_{Conv(scope("conv1."), cifar_conv(0)), Conv(scope("conv2."), cifar_conv(1)),
               Conv(scope("conv3."), cifar_conv(2)), Conv(scope("conv4."), cifar_conv(3))},
        fc1_(scope("fc1."), cifar_features(config.min_side_px), kCifarHidden),
        fc2_(scope("fc2."), kCifarHidden, config.class_count) {}

  at::Tensor forward(const at::Tensor& images, const DropoutPlace& place) const override {
    at::Tensor output = images;
    for (std::size_t conv = 0; conv < kCifarConvs; ++conv) {
      output = convs_[conv].forward(output, {.relu = true});
      if (conv % 2 == 0) continue;
      output = dropped(at::max_pool2d(output, 2), kConvDropout, static_cast<int>(conv / 2), place);
    }
    output = fc1_.forward(output.contiguous().flatten(1)).relu_();
    return fc2_.forward(dropped(output, kHiddenDropout, 2, place));
  }

  StartValue start_value(const std::string&, const at::Tensor& like) const override {
    if (like.dim() < 2) return {};
    const std::int64_t area = like.numel() / (like.size(0) * like.size(1));
    const auto fans = static_cast<double>((like.size(0) + like.size(1)) * area);
    return {.kind = StartValue::Kind::kUniform, .scale = std::sqrt(6 / fans)};
  }

 private:
  at::Tensor dropped(const at::Tensor& input, double probability, int layer,
                     const DropoutPlace& place) const {
    if (!is_training()) return input;
    return dropout(input, probability, place.slots,
                   {.seed = place.seed, .step = place.step, .layer = layer});
  }

  std::array<Conv, kCifarConvs> convs_;
  Linear fc1_, fc2_;
};

}  // namespace

std::unique_ptr<Classifier> make_classifier(const ModelConfig& config) {
  RETINA_CHECK(config.task == Task::kClassification);
  if (config.backbone == kCifarCnn) return std::make_unique<CifarCnn>(config);
  return std::make_unique<BackboneClassifier>(config, classifier_prefixes(config.backbone));
}

}  // namespace retina
