#include "tests/parity/golden.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "shared/base/error.h"
#include "shared/numeric/random.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

constexpr int kProjections = 4;
constexpr std::int64_t kLargestTensor = 1024 * 1024 * 9;  // a 3x3 of a Wide ResNet
constexpr std::uint32_t kSignStream = 5;

// Bit k of place i: the sign of element i in projection k.
const std::vector<std::uint8_t>& sign_bits() {
  static const auto signs = [] {
    const RandomStream stream = {
        .seed = kGoldenSeed, .use = RandomUse::kTest, .stream = kSignStream};
    std::vector<std::uint8_t> bits(kLargestTensor);
    for (std::size_t i = 0; i < bits.size(); ++i) {
      bits[i] = static_cast<std::uint8_t>(stream.bits(i) & 0xF);
    }
    return bits;
  }();
  return signs;
}

std::array<double, kProjections> projections(const at::Tensor& flat) {
  const auto& signs = sign_bits();
  const double* values = flat.const_data_ptr<double>();
  std::array<double, kProjections> sums = {};
  RETINA_CHECK(flat.numel() <= kLargestTensor);
  for (std::size_t i = 0; i < static_cast<std::size_t>(flat.numel()); ++i) {
    for (int k = 0; k < kProjections; ++k) {
      sums[static_cast<std::size_t>(k)] += (signs[i] >> k & 1) != 0 ? values[i] : -values[i];
    }
  }
  return sums;
}

// The value of tensor `number` of the state dict; make_golden.py has the same rule.
at::Tensor golden_weight(std::uint32_t number, const std::string& name, const at::Tensor& like,
                         bool frozen) {
  const bool norm = name.find(".bn") != std::string::npos || name.ends_with(".1.weight") ||
                    name.ends_with(".1.bias");
  UniformDraw draw = {
      .stream = 1000 + number, .shape = like.sizes().vec(), .low = -0.1, .high = 0.1};
  if (name.ends_with("num_batches_tracked")) return at::zeros(like.sizes(), at::kLong);
  if (like.dim() == 4) {
    const auto fan_in = static_cast<double>(like.size(1) * like.size(2) * like.size(3));
    const bool output =
        name.find("cls_logits") != std::string::npos || name.find("bbox_reg") != std::string::npos;
    // The outputs are damped: without norms in the heads, losses would explode in training.
    const double gain = name.starts_with("backbone.fpn.") ? 1 : output ? 0.2 : 2;
    draw.high = std::sqrt(3 * gain / fan_in);
    draw.low = -draw.high;
  } else if (like.dim() == 2) {
    draw.high = std::sqrt(3 / static_cast<double>(like.size(1)));
    draw.low = -draw.high;
  } else if (name.ends_with("cls_logits.bias")) {
    draw.low = -3.5, draw.high = -2.5;
  } else if (name.ends_with("running_var")) {
    draw.low = 0.75, draw.high = 1.25;
  } else if (name.ends_with("bn3.weight") && !frozen) {
    draw.low = 0.1, draw.high = 0.3;
  } else if (norm && !frozen && name.ends_with("weight")) {
    draw.low = 0.2, draw.high = 0.5;
  } else if (norm && !frozen && name.ends_with("bias")) {
    draw.low = 0.5, draw.high = 1.5;  // away from the rectifiers' kink: make_golden.py says why
  } else if (name.ends_with("weight")) {
    draw.low = 0.4, draw.high = 0.8;
  }
  return draw_f32(draw);
}

}  // namespace

std::string golden_path(const std::string& name) {
  return std::string(RETINA_SOURCE_DIR) + "/tests/parity/golden/" + name;
}

JsonFile read_golden(const std::string& name) {
  return JsonFile::read(golden_path(name));
}

at::Tensor draw_f64(const UniformDraw& draw) {
  const RandomStream stream = {.seed = kGoldenSeed, .use = RandomUse::kTest, .stream = draw.stream};
  at::Tensor values = at::empty(draw.shape, at::kDouble);
  double* out = values.mutable_data_ptr<double>();
  at::parallel_for(0, values.numel(), 1 << 14, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      out[i] = draw.low + (draw.high - draw.low) * stream.unit(static_cast<std::uint64_t>(i));
    }
  });
  return values;
}

at::Tensor draw_f32(const UniformDraw& draw) {
  return draw_f64(draw).to(at::kFloat);
}

at::Tensor list(const JsonView& numbers) {
  at::Tensor values = at::empty({static_cast<std::int64_t>(numbers.size())}, at::kDouble);
  double* out = values.mutable_data_ptr<double>();
  for (std::size_t i = 0; i < numbers.size(); ++i) out[i] = numbers.at(i).as_double();
  return values;
}

at::Tensor table(const JsonView& rows) {
  at::Tensor values = at::empty({static_cast<std::int64_t>(rows.size()), 4}, at::kDouble);
  double* out = values.mutable_data_ptr<double>();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < 4; ++j) *out++ = rows.at(i).at(j).as_double();
  }
  return values;
}

Deviation deviation(const JsonView& golden, const at::Tensor& tensor, double floor) {
  const at::Tensor flat = tensor.detach().to(at::kDouble).contiguous().view(-1);
  const auto count = static_cast<std::int64_t>(golden.at("values").size());
  RETINA_CHECK(count <= flat.numel());
  at::Tensor values = at::empty({count}, at::kDouble);
  for (std::int64_t i = 0; i < count; ++i) {
    values.mutable_data_ptr<double>()[i] = flat.const_data_ptr<double>()[i * flat.numel() / count];
  }
  const at::Tensor expected = list(golden.at("values"));
  const at::Tensor difference = values - expected;
  const double norm = golden.at("norm").as_double();
  const auto share = [floor](double error, double size) {
    const double unit = std::max(size, floor);
    return unit > 0 ? error / unit : (error > 0 ? INFINITY : 0);
  };
  double relative =
      std::max(share(std::abs(flat.norm().item<double>() - norm), norm),
               share(difference.norm().item<double>(), expected.norm().item<double>()));
  const auto sums = projections(flat);
  for (std::size_t k = 0; k < sums.size(); ++k) {
    const double golden_sum = golden.at("projections").at(k).as_double();
    relative = std::max(relative, share(std::abs(sums[k] - golden_sum), norm));
  }
  return {.largest = difference.abs().max().item<double>(), .relative = relative};
}

ModelConfig golden_config(const std::string& name) {
  ModelConfig config;
  config.backbone = name.substr(name.find('_') + 1);
  config.class_count = 5;
  config.anchor_sizes = {16, 32, 64, 128, 256};
  if (name.starts_with("classifier")) config.task = Task::kClassification;
  if (name.starts_with("v1")) {
    config.norm = Norm::kFrozen;
    config.head_norm = HeadNorm::kNone;
    config.p6_from_c5 = false;
  }
  return config;
}

LossOptions golden_loss_options(const std::string& name) {
  return {.box = {.kind = name.starts_with("v1") ? BoxLossKind::kL1 : BoxLossKind::kGiou}};
}

void set_golden_weights(Network& network) {
  const torch::NoGradGuard no_gradient;
  std::uint32_t number = 0;
  // torchvision's state dict counts num_batches_tracked only where batch norm is trained, as ours.
  for (auto& [key, tensor] : state_of(network)) {
    const bool is_body = !key.starts_with(network.class_layer());
    const std::string name =
        network.body_prefix().empty() && is_body ? "backbone.body." + key : key;
    tensor.copy_(golden_weight(number++, name, tensor, network.config().frozen_norm()));
  }
}

std::vector<BoxTargets> golden_targets() {
  return {{.boxes = torch::tensor({10.5, 20.0, 90.25, 110.0, 100.0, 30.0, 130.0, 75.5, 60.0, 60.0,
                                   68.0, 71.0})
                        .view({3, 4})
                        .to(at::kFloat),
           .labels = torch::tensor({1, 4, 0}, at::kLong),
           .counts = true},
          {.boxes = torch::zeros({0, 4}), .labels = torch::zeros({0}, at::kLong), .counts = true}};
}

std::vector<PixelSize> golden_image_sizes() {
  return {{.height = 120, .width = 160}, {.height = 128, .width = 141}};
}

at::Tensor golden_images() {
  const at::Tensor images = draw_f32({.stream = 1,
                                      .shape = {2, 3, kGoldenPadded.height, kGoldenPadded.width},
                                      .low = -2,
                                      .high = 2});
  const auto sizes = golden_image_sizes();
  for (std::int64_t i = 0; i < 2; ++i) {
    const PixelSize size = sizes[static_cast<std::size_t>(i)];
    images[i].slice(1, size.height).zero_();
    images[i].slice(2, size.width).zero_();
  }
  return images;
}

}  // namespace retina
