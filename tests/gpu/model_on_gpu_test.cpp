// Which GPU a rank takes, and the whole model and its loss on it against the CPU: outputs, every
// gradient by name, and detections.
#include <torch/types.h>

#include <cmath>
#include <set>

#include "shared/model/device.h"
#include "shared/model/postprocess.h"
#include "shared/model/retinanet.h"
#include "shared/model/sync_norm.h"
#include "tests/gpu/gpu.h"
#include "tests/ops/test_tensors.h"
#include "train/step/detection_loss.h"

namespace retina {
namespace {

constexpr PixelSize kSize = {.height = 128, .width = 192};

class ModelOnGpu : public testing::TestWithParam<BoxLossKind> {
 protected:
  void SetUp() override {
    RETINA_GPU_OR_SKIP();
    set_tf32(false);  // 10-bit products are no comparison
  }

  // torchvision's v2, or v1 with frozen norms.
  static ModelConfig config() {
    const bool v2 = GetParam() == BoxLossKind::kGiou;
    ModelConfig config;
    config.backbone = "resnet18";
    config.class_count = 2;
    config.norm = v2 ? Norm::kBatch : Norm::kFrozen;
    config.head_norm = v2 ? HeadNorm::kGroup : HeadNorm::kNone;
    config.p6_from_c5 = v2;
    return config;
  }
  static at::Tensor images() {
    return random_tensor(
               {.seed = 1, .shape = {2, 3, kSize.height, kSize.width}, .low = -2, .high = 2})
        .to(at::kFloat);
  }

  struct Step {
    HeadOutputs outputs;
    double classification = 0, box_regression = 0;
    NamedTensors gradients;
  };
  static Step step_on(c10::Device device, at::ScalarType type) {
    RetinaNet model(config());
    initialise(model, 7);
    use_channels_last(model);
    model.to(device);
    model.to(type);
    std::vector<BoxTargets> targets;
    for (const std::uint64_t seed : {2U, 3U}) {
      targets.push_back(
          {.boxes = random_boxes({.seed = seed, .count = 4, .extent = 60}).to(at::kFloat),
           .labels = torch::tensor({0L, 1L, 1L, 0L})});
    }
    Step step;
    step.outputs = model.forward(images().to(device, type));
    const at::Tensor anchors =
        anchors_for(model.config(), kSize, at::TensorOptions().device(device).dtype(type));
    LossOptions options;
    options.box.kind = GetParam();
    const DetectionLoss loss =
        detection_loss(step.outputs, anchors, batch_of(targets, device), options, 2);
    loss.backward();
    step.classification = loss.classification.item<double>();
    step.box_regression = loss.box_regression.item<double>();
    for (const auto& [name, tensor] : state_of(model)) {
      if (tensor.grad().defined()) step.gradients.emplace_back(name, tensor.grad().cpu());
    }
    return step;
  }

  static double largest_difference(const std::vector<at::Tensor>& gpu,
                                   const std::vector<at::Tensor>& cpu) {
    return (all_levels(gpu).cpu() - all_levels(cpu)).abs().max().item<double>();
  }
  struct Difference {
    std::string name;
    double norm, expected_norm;
  };
  // Of each gradient, which both must have.
  static std::vector<Difference> differences(const Step& gpu, const Step& cpu) {
    EXPECT_EQ(gpu.gradients.size(), cpu.gradients.size());
    std::vector<Difference> all;
    for (std::size_t i = 0; i < std::min(gpu.gradients.size(), cpu.gradients.size()); ++i) {
      const auto& [name, expected] = cpu.gradients[i];
      EXPECT_EQ(gpu.gradients[i].name, name);
      all.push_back({name, (gpu.gradients[i].tensor - expected).norm().item<double>(),
                     expected.norm().item<double>()});
    }
    return all;
  }
  static double square(double value) { return value * value; }
  static double norm_of(const NamedTensors& tensors) {
    double squares = 0;
    for (const auto& [name, tensor] : tensors) squares += square(tensor.norm().item<double>());
    return std::sqrt(squares);
  }
};

TEST_P(ModelOnGpu, OutputsLossesAndTheWholeGradientAreTheCpus) {
  const Step cpu = step_on(c10::kCPU, at::kFloat), gpu = step_on(kGpu, at::kFloat);
  EXPECT_LE(largest_difference(gpu.outputs.logits, cpu.outputs.logits), 1e-4);
  EXPECT_LE(largest_difference(gpu.outputs.deltas, cpu.outputs.deltas), 1e-4);
  EXPECT_NEAR(gpu.classification, cpu.classification, 1e-5 * cpu.classification);
  EXPECT_NEAR(gpu.box_regression, cpu.box_regression, 1e-5 * cpu.box_regression);
  double squares = 0;
  for (const Difference& difference : differences(gpu, cpu)) squares += square(difference.norm);
  // A kernel's rounding decides about activations beside ReLU's kink: the kernels of two CPUs
  // differ as much.
  EXPECT_LE(std::sqrt(squares), 1e-2 * norm_of(cpu.gradients));
}

// In f64: in f32 an activation beside ReLU's kink is on either side of it.
TEST_P(ModelOnGpu, EveryGradientInF64IsTheCpus) {
  const Step cpu = step_on(c10::kCPU, at::kDouble), gpu = step_on(kGpu, at::kDouble);
  // A bias that only moves what a norm centres again has no gradient but rounding.
  const double floor = 1e-6 * norm_of(cpu.gradients);
  ASSERT_GT(cpu.gradients.size(), 40U);
  for (const Difference& difference : differences(gpu, cpu)) {
    EXPECT_LE(difference.norm, 1e-6 * std::max(difference.expected_norm, floor)) << difference.name;
  }
}

TEST_P(ModelOnGpu, DetectionsOfTheSameOutputsAreTheSame) {
  // The same head outputs on both: scores spread over 0 .. 1, none so close to another that the
  // last bit of a sigmoid orders them, boxes that overlap.
  const at::Tensor anchors = anchors_for(config(), kSize);
  const std::int64_t count = anchors.size(0);
  const std::int64_t score_count = 2 * count * 2;
  const at::Tensor places = random_tensor({.seed = 4, .shape = {score_count}}).argsort().argsort();
  const at::Tensor logits = (places.to(at::kDouble) * (12.0 / static_cast<double>(score_count)) - 9)
                                .reshape({2, count, 2})
                                .to(at::kFloat);
  const at::Tensor deltas =
      random_tensor({.seed = 5, .shape = {2, count, 4}, .low = -1, .high = 1}).to(at::kFloat);
  HeadOutputs cpu, gpu;
  std::int64_t begin = 0;
  for (const int own : anchors_per_level(kSize)) {
    cpu.logits.push_back(logits.narrow(1, begin, own));
    cpu.deltas.push_back(deltas.narrow(1, begin, own));
    gpu.logits.push_back(cpu.logits.back().to(kGpu));
    gpu.deltas.push_back(cpu.deltas.back().to(kGpu));
    begin += own;
  }
  const std::vector<PixelSize> sizes = {kSize, {.height = 100, .width = 180}};
  const PostprocessOptions options;
  const auto expected = postprocess(cpu, config(), kSize, sizes, options);
  const auto got = postprocess(gpu, config(), kSize, sizes, options);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_GT(expected[i].scores.size(0), 50);
    ASSERT_EQ(got[i].scores.size(0), expected[i].scores.size(0));
    EXPECT_TRUE(got[i].labels.cpu().equal(expected[i].labels));
    EXPECT_TRUE(got[i].scores.cpu().allclose(expected[i].scores, 1e-5, 1e-6));
    EXPECT_TRUE(got[i].boxes.cpu().allclose(expected[i].boxes, 1e-5, 1e-3));
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, ModelOnGpu,
                         testing::Values(BoxLossKind::kL1, BoxLossKind::kGiou),
                         [](const auto& instance) {
                           return instance.param == BoxLossKind::kL1 ? "V1" : "V2";
                         });

TEST(DeviceOnGpu, IsTheFirstUnlessTheCpuIsAskedFor) {
  RETINA_GPU_OR_SKIP();
  EXPECT_EQ(choose_device(DeviceChoice::kAuto), c10::Device(c10::kCUDA, 0));
  EXPECT_EQ(choose_device(DeviceChoice::kCuda), c10::Device(c10::kCUDA, 0));
  EXPECT_EQ(choose_device(DeviceChoice::kCpu), c10::Device(c10::kCPU));
}

TEST(DeviceOnGpu, HasAnIdOfItsOwn) {
  RETINA_GPU_OR_SKIP();
  const std::vector<std::string> ids = visible_gpus();
  EXPECT_EQ(ids.size(), static_cast<std::size_t>(torch::cuda::device_count()));
  EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), ids.size());
  EXPECT_EQ(visible_gpus(), ids);
}

// Batch norm over ranks. One rank: what the others add is none of the kernels' business.
class LoneRank : public RankSum {
 public:
  void sum(std::span<double>, const std::string&) override {}
};

// The output, the gradients of input, weight and bias, and the running statistics; on the CPU.
std::vector<at::Tensor> results_on(c10::Device device) {
  torch::manual_seed(1);
  const auto draw = [&](std::vector<std::int64_t> shape) {
    return torch::randn(shape, at::kDouble).to(device);
  };
  const at::Tensor input = draw({3, 5, 7, 4}).requires_grad_(), weight = draw({5}).requires_grad_(),
                   bias = draw({5}).requires_grad_(), running_mean = draw({5}),
                   running_var = draw({5}).square(), output_gradient = draw({3, 5, 7, 4});
  LoneRank alone;
  const SyncNorm options{.ranks = &alone, .name = "norm"};
  const at::Tensor output =
      sync_batch_norm(input, weight, bias, running_mean, running_var, options);
  output.backward(output_gradient);
  std::vector<at::Tensor> results;
  for (const at::Tensor& tensor :
       {output.detach(), input.grad(), weight.grad(), bias.grad(), running_mean, running_var}) {
    results.push_back(tensor.cpu());
  }
  return results;
}

TEST(SyncNormOnGpu, GivesTheCpusOutputAndGradients) {
  RETINA_GPU_OR_SKIP();
  const auto cpu = results_on(c10::kCPU), gpu = results_on(kGpu);
  for (std::size_t i = 0; i < cpu.size(); ++i) {
    EXPECT_TRUE(gpu[i].allclose(cpu[i], 1e-11, 1e-11))
        << i << ": " << (gpu[i] - cpu[i]).abs().max();
  }
}

}  // namespace
}  // namespace retina
