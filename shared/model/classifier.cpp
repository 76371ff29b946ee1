#include "shared/model/classifier.h"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/max_pool2d.h>

#include <array>
#include <cmath>

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

// Returns torchvision's initial values of dense layers, except a ResNet's.
StartValue small_start_value(const at::Tensor& like) {
  if (like.dim() < 2) return {};
  return {.kind = StartValue::Kind::kNormal, .scale = 0.01};
}

// A backbone with one dense layer.
class BackboneClassifier : public Classifier {
 public:
  explicit BackboneClassifier(const ModelConfig& config)
      : Classifier(config, {.class_layer = kClassifierPrefix}),
        body_(make_body(scope(""), config)),
        fc_(scope(kClassifierPrefix), feature_channels(config.backbone).back(),
            config.class_count) {}

  at::Tensor forward(const at::Tensor& images, const DropoutPlace&) const override {
    return fc_.forward(pooled(*body_, images, norm_mode()));
  }

  // Starts the last layer of a ResNet as torch.nn.Linear: uniform within 1 / sqrt(fan in), its bias
  // too.
  StartValue start_value(const std::string& name, const at::Tensor& like) const override {
    if (!name.starts_with(kClassifierPrefix)) return body_start_value(name, like);
    if (family_of(config().backbone) != BackboneFamily::kResNet) return small_start_value(like);
    const int fan_in = feature_channels(config().backbone).back();
    return {.kind = StartValue::Kind::kUniform, .scale = 1 / std::sqrt(fan_in)};
  }

 private:
  std::unique_ptr<Body> body_;
  Linear fc_;
};

// MobileNetV3 with its two dense layers, dropout of a fifth between them.
class MobileNetClassifier : public Classifier {
 public:
  explicit MobileNetClassifier(const ModelConfig& config)
      : Classifier(config,
                   {.body = prefixes(config).body, .class_layer = prefixes(config).class_layer}),
        body_(make_body(scope(prefixes(config).body), config)),
        hidden_(scope("classifier.0."), kMobileNetV3LastChannels, kMobileNetV3Hidden),
        last_(scope(prefixes(config).class_layer), kMobileNetV3Hidden, config.class_count) {}

  at::Tensor forward(const at::Tensor& images, const DropoutPlace& place) const override {
    constexpr double kDropout = 0.2;
    at::Tensor output = at::hardswish(hidden_.forward(pooled(*body_, images, norm_mode())));
    if (is_training()) {
      output = dropout(output, kDropout, place.slots,
                       {.seed = place.seed, .step = place.step, .layer = 0});
    }
    return last_.forward(output);
  }

  StartValue start_value(const std::string& name, const at::Tensor& like) const override {
    return name.starts_with(body_prefix()) ? body_start_value(name, like) : small_start_value(like);
  }

 private:
  static ClassifierPrefixes prefixes(const ModelConfig& config) {
    return classifier_prefixes(config.backbone);
  }

  std::unique_ptr<Body> body_;
  Linear hidden_, last_;
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
  const bool is_mobile = family_of(config.backbone) == BackboneFamily::kMobileNetV3;
  if (is_mobile) return std::make_unique<MobileNetClassifier>(config);
  return std::make_unique<BackboneClassifier>(config);
}

}  // namespace retina
