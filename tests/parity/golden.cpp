#include "tests/parity/golden.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "shared/base/random.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

constexpr std::int64_t kSamples = 256;

// ctest runs many tests side by side: one thread each, or they wait for each other's.
[[maybe_unused]] const bool kOneThread = [] {
  at::set_num_threads(1);
  return true;
}();

// The value of tensor `number` of the state dict; make_golden.py has the same rule.
at::Tensor golden_weight(std::uint32_t number, const std::string& name, const at::Tensor& like) {
  UniformDraw draw = {
      .stream = 1000 + number, .shape = like.sizes().vec(), .low = -0.1, .high = 0.1};
  if (name.ends_with("num_batches_tracked")) return at::zeros(like.sizes(), at::kLong);
  if (like.dim() == 4) {
    const auto fan_in = static_cast<double>(like.size(1) * like.size(2) * like.size(3));
    const double gain = name.starts_with("backbone.fpn.") ? 1 : 2;
    draw.high = std::sqrt(3 * gain / fan_in);
    draw.low = -draw.high;
  } else if (name.ends_with("cls_logits.bias")) {
    draw.low = -3.5, draw.high = -2.5;
  } else if (name.ends_with("running_var")) {
    draw.low = 0.75, draw.high = 1.25;
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

Deviation deviation(const JsonView& golden, const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().to(at::kDouble).contiguous().view(-1);
  const std::int64_t count = std::min(kSamples, flat.numel());
  at::Tensor values = at::empty({count}, at::kDouble);
  for (std::int64_t i = 0; i < count; ++i) {
    values.mutable_data_ptr<double>()[i] = flat.const_data_ptr<double>()[i * flat.numel() / count];
  }
  const at::Tensor expected = list(golden.at("values"));
  const at::Tensor difference = values - expected;
  const double norm = golden.at("norm").as_double();
  const double of_norm = std::abs(flat.norm().item<double>() - norm);
  const double of_samples = difference.norm().item<double>();
  const auto share = [](double error, double size) {
    return size > 0 ? error / size : (error > 0 ? INFINITY : 0);
  };
  return {.largest = difference.abs().max().item<double>(),
          .relative =
              std::max(share(of_norm, norm), share(of_samples, expected.norm().item<double>()))};
}

ModelConfig golden_config(const std::string& name) {
  ModelConfig config;
  config.backbone = "resnet18";
  config.class_count = 5;
  if (name == "v1") {
    config.norm = "frozen";
    config.head_norm = "none";
    config.p6_from_c5 = false;
  } else {
    config.anchor_sizes = {16, 32, 64, 128, 256};
  }
  return config;
}

RetinaNet golden_model(const std::string& name) {
  RetinaNet model(golden_config(name));
  const torch::NoGradGuard no_gradient;
  std::uint32_t number = 0;
  // torchvision's state dict counts num_batches_tracked only where batch norm is trained, as ours.
  for (auto& [key, tensor] : state_of(model)) tensor.copy_(golden_weight(number++, key, tensor));
  model->train();
  return model;
}

std::vector<PixelSize> golden_image_sizes() {
  return {{.height = 150, .width = 192}, {.height = 160, .width = 170}};
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
