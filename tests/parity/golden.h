// Reads tests/parity/golden and makes the inputs it was computed from (make_golden.py says how).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/json.h"
#include "shared/model/retinanet.h"
#include "tests/ops/test_tensors.h"
#include "train/step/detection_loss.h"

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

// How far `tensor` is from a golden {norm, values, projections}: largest difference of a sampled
// element; and the worst of norm, samples and projections, relative to the tensor's size, or to
// `floor` where that is larger.
struct Deviation {
  double largest = 0;
  double relative = 0;
};
Deviation deviation(const JsonView& golden, const at::Tensor& tensor, double floor = 0);

// The golden cases: torchvision's two versions on two backbones.
inline constexpr const char* kGoldenCases[] = {"v1_resnet18", "v1_resnet50", "v2_resnet18",
                                               "v2_resnet50"};
ModelConfig golden_config(const std::string& name);
// L1 for v1, GIoU for v2.
LossOptions golden_loss_options(const std::string& name);
// The same for classifiers.
inline constexpr const char* kGoldenClassifiers[] = {"classifier_resnet18", "classifier_resnet50"};
// And of other backbones, in evaluation mode.
inline constexpr const char* kGoldenBackbones[] = {"resnext50_32x4d", "wide_resnet50_2",
                                                   "regnet_x_400mf", "mobilenet_v3_large"};
// Overwrites all of the network's tensors with the golden weights, whatever their type.
void set_golden_weights(Network& network);

constexpr PixelSize kGoldenPadded = {.height = 128, .width = 160};
std::vector<PixelSize> golden_image_sizes();
at::Tensor golden_images();  // [2, 3, 128, 160] f32
std::vector<BoxTargets> golden_targets();

}  // namespace retina
