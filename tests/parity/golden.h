// Reads tests/parity/golden and makes the inputs it was computed from (make_golden.py says how).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/json.h"
#include "shared/model/retinanet.h"

namespace retina {

constexpr std::uint64_t kGoldenSeed = 20261121;

JsonFile read_golden(const std::string& name);
std::string golden_path(const std::string& name);

// What a uniform draw needs; equals uniform() of counter_random.py.
struct UniformDraw {
  std::uint32_t stream = 0;
  std::vector<std::int64_t> shape = {};
  double low = 0;
  double high = 1;
};
at::Tensor draw_f64(const UniformDraw& draw);
at::Tensor draw_f32(const UniformDraw& draw);

// Numbers of a JSON array of arrays, as an f64 tensor [rows, columns]; {0, 4} when empty.
at::Tensor table(const JsonView& rows);
// Numbers of a JSON array, f64.
at::Tensor list(const JsonView& numbers);

// How far `tensor` is from a golden {norm, values}: largest difference of a sampled element, and
// both the norm's and the samples' difference relative to the golden's norm.
struct Deviation {
  double largest = 0;
  double relative = 0;
};
Deviation deviation(const JsonView& golden, const at::Tensor& tensor);

// A model of the golden case "v1" or "v2" with the golden weights, in training mode.
ModelConfig golden_config(const std::string& name);
RetinaNet golden_model(const std::string& name);
constexpr PixelSize kGoldenPadded = {.height = 160, .width = 192};
std::vector<PixelSize> golden_image_sizes();
at::Tensor golden_images();  // [2, 3, 160, 192] f32

}  // namespace retina
