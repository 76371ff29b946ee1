// retina-train on fake_device.h, with the kernels of shared/ops emulated: that a step waits for
// nothing, that no memory is touched while a copy needs it, and how a run ends when the GPU fails.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <map>
#include <optional>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "tests/e2e/job.h"
#include "tests/gpu/fake_device/fake_device.h"
#include "tests/support/child_process.h"
#include "train/step/detection_loss.h"

namespace retina {
namespace {

using testing::AllOf, testing::AnyOf, testing::ElementsAre, testing::HasSubstr, testing::IsEmpty,
    testing::IsSupersetOf, testing::Pair;

at::Tensor pinned(int count, float value) {
  return torch::full({count}, value, torch::TensorOptions().pinned_memory(true));
}

class FakeDevice : public testing::Test {
 protected:
  void SetUp() override { fake_device::reset(); }
  // What a test found on purpose is no fault of the program.
  void TearDown() override { fake_device::reset(); }
};

TEST_F(FakeDevice, ComputesAsTheCpu) {
  torch::manual_seed(1);
  const at::Tensor x = torch::randn({2, 3, 9, 9});
  for (const int groups : {1, 3}) {  // the latter: each channel alone
    const at::Tensor w = torch::randn({6, 3 / groups, 3, 3});
    const auto gradient = [&](const c10::Device& device) {
      const at::Tensor weight = w.to(device).detach().requires_grad_();
      const at::Tensor y = torch::conv2d(x.to(device), weight, {}, 2, 1, /*dilation=*/1, groups);
      y.relu().mean({2, 3}).square().sum().backward();
      return weight.grad().cpu();
    };
    EXPECT_TRUE(torch::allclose(gradient(torch::kCUDA), gradient(torch::kCPU), 1e-5, 1e-6));
  }
  EXPECT_THAT(fake_device::violations(), IsEmpty());
}

TEST_F(FakeDevice, SeesHostMemoryThatChangesUnderACopy) {
  at::Tensor host = pinned(1000, 1);
  const at::Tensor device = host.to(torch::kCUDA, /*non_blocking=*/true);
  EXPECT_EQ(fake_device::counts().waits, 0);
  host.fill_(2);
  EXPECT_THAT(fake_device::violations(), ElementsAre(HasSubstr("changed before it was copied")));
}

TEST_F(FakeDevice, GivesTheHostNothingBeforeItsCopyIsDone) {
  const at::Tensor device = torch::full({5}, 3.0F, torch::kCUDA);
  at::Tensor host = pinned(5, 0);
  host.copy_(device, /*non_blocking=*/true);
  EXPECT_TRUE(host.isnan().all().item<bool>());
  torch::cuda::synchronize();
  EXPECT_TRUE(host.eq(3).all().item<bool>());
}

TEST_F(FakeDevice, HasMemoryThatIsNotANumberUntilItIsWritten) {
  EXPECT_TRUE(torch::empty({100}, torch::kCUDA).isnan().all().item<bool>());
}

// The targets' copy, both assigners and the losses, of images with and without partial boxes.
TEST_F(FakeDevice, LearnsBesidePartialBoxesAsTheCpuAndWaitsForNothing) {
  Batch batch{.padded = {96, 64}};
  batch.samples.resize(3);
  batch.samples[0].boxes = {{4, 4, 40, 40}, {50, 10, 90, 60}};
  batch.samples[0].labels = {1, 0};
  batch.samples[0].partial_boxes = {{30, 0, 96, 30}};
  batch.samples[2].partial_boxes = {{0, 40, 30, 64}, {60, 20, 70, 64}};
  torch::manual_seed(2);
  const std::vector<AnchorBox> all = grid_anchors({.sizes = {16, 32, 64, 128, 256}}, {64, 96});
  const auto count = static_cast<std::int64_t>(all.size());
  const at::Tensor anchors = torch::from_blob(const_cast<AnchorBox*>(all.data()), {count, 4});
  const at::Tensor logits = torch::randn({3, count, 2}), deltas = torch::randn({3, count, 4});
  for (const Assigner assigner : {Assigner::kIou, Assigner::kAtss}) {
    const auto loss_on = [&](c10::Device device) {
      const HeadOutputs outputs = {.logits = {logits.to(device).detach().requires_grad_()},
                                   .deltas = {deltas.to(device).detach().requires_grad_()}};
      const at::Tensor there = anchors.to(device);
      const std::int64_t waits = fake_device::counts().waits;
      const DetectionLoss loss =
          detection_loss(outputs, there, batch_targets(batch, device), {.assigner = assigner}, 3);
      EXPECT_EQ(fake_device::counts().waits, waits);
      return std::vector{loss.classification.cpu(), loss.box_regression.cpu(),
                         loss.gradients[0].cpu(), loss.gradients[1].cpu()};
    };
    const auto found = loss_on({c10::kCUDA, 0}), expected = loss_on(c10::kCPU);
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_TRUE(torch::allclose(found[i], expected[i], 1e-5, 1e-7)) << i;
    }
    EXPECT_TRUE(found[2].ne(0).equal(expected[2].ne(0))) << "the same anchors are ignored";
    EXPECT_GT(found[2].eq(0).all(2).sum().item<std::int64_t>(), 20);
  }
  EXPECT_THAT(fake_device::violations(), IsEmpty());
}

// What a run on the fake device came to.
struct Outcome {
  ProcessResult result;
  std::optional<JsonFile> report = {};  // none where the program was ended by a signal

  std::int64_t count(const char* name) const { return report.value().root().at(name).as_int(); }
  std::vector<std::string> texts(const char* name) const {
    std::vector<std::string> all;
    const JsonView list = report.value().root().at(name);
    for (std::size_t i = 0; i < list.size(); ++i) all.push_back(list.at(i).as_string());
    return all;
  }
};

class FakeTraining : public testing::Test {
 protected:
  using Environment = std::vector<std::pair<std::string, std::string>>;

  // Small: emulated kernels take long, and CPUs for convolutions in half.
  std::vector<std::string> command_of(const std::string& run, int steps,
                                      const std::vector<std::string>& more) const {
    std::vector<std::string> options = {"--fpn-channels", "64", "--head-convs", "1"};
    options.insert(options.end(), more.begin(), more.end());
    std::vector<std::string> words = job_.train_command(job_ / run, steps, options);
    set_value(words, "--images-per-step", "2");
    return words;
  }

  Outcome train(const std::string& run, int steps, const std::vector<std::string>& more = {},
                const Environment& faults = {}) const {
    std::vector<std::string> command = command_of(run, steps, more);
    command[0] = RETINA_FAKE_PROGRAMS "/retina-train";
    set_value(command, "--device", "cuda");
    std::vector<std::string> whole = {"env", cat("RETINA_FAKE_REPORT=", job_ / "report")};
    for (const auto& [name, value] : faults) whole.push_back(cat(name, "=", value));
    whole.insert(whole.end(), command.begin(), command.end());
    if (path_exists(job_ / "report")) remove_file(job_ / "report");
    Outcome outcome{.result = run_process(whole)};
    if (path_exists(job_ / "report")) outcome.report = JsonFile::read(job_ / "report");
    return outcome;
  }

  void train_on_cpu(const std::string& run, int steps,
                    const std::vector<std::string>& more = {}) const {
    const ProcessResult result = run_process(command_of(run, steps, more));
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }

  double loss(const std::string& run) const { return first_step(job_ / run, "loss"); }

  // Trains two steps on the fake device and on the CPU: the losses are alike, and no fault is seen.
  Outcome expect_the_cpus_loss(const std::vector<std::string>& more, double tolerance,
                               const std::string& name = "") const {
    Outcome fake = train("fake" + name, 2, more);
    EXPECT_EQ(fake.result.exit_code, 0) << fake.result.err;
    EXPECT_THAT(fake.texts("violations"), IsEmpty());
    train_on_cpu("cpu" + name, 2, more);
    EXPECT_NEAR(loss("fake" + name), loss("cpu" + name), tolerance * loss("cpu" + name));
    return fake;
  }

  const Job job_;
};

TEST_F(FakeTraining, HasTheCpusLossesAndTouchesNoMemoryThatACopyNeeds) {
  const Outcome fake = expect_the_cpus_loss({}, 1e-4);
  EXPECT_THAT(fake.result.err, HasSubstr("cuda:0"));
  EXPECT_GT(fake.count("late_copies"), 2) << "images are not waited for";
  // Batch norm with a residual and a ReLU, and its gradient.
  EXPECT_THAT(fake.texts("kernels"), IsSupersetOf({"normalise<Stored, kValues, true>",
                                                   "add_gradients<Stored, kValues, true>"}));
}

TEST_F(FakeTraining, TrainsBatchNormIn16Bit) {
  for (const std::string precision : {"bf16", "fp16"}) {
    expect_the_cpus_loss({"--precision", precision}, 0.02, precision);
  }
}

// The other kernels: biases added as batch norm is folded, bfloat16; and detections of a
// validation.
TEST_F(FakeTraining, TrainsFrozenNormInBfloat16AndValidates) {
  const std::vector<std::string> more = {"--norm",       "frozen",         "--head-norm",
                                         "none",         "--precision",    "bf16",
                                         "--validation", job_.val_shards()};
  expect_the_cpus_loss(more, 0.02);
  const auto validation_loss = [&](const std::string& run) {
    const JsonFile line = std::move(metric_lines(job_ / run, "validation").at(0));
    return line.root().at("validation").at("loss").as_double();
  };
  EXPECT_NEAR(validation_loss("fake"), validation_loss("cpu"), 0.02 * validation_loss("cpu"));
}

// The other losses, and anchors chosen box by box.
const std::vector<std::string> kQuality = {"--assigner",    "atss",       "--class-loss",
                                           "quality-focal", "--box-loss", "ciou"};

TEST_F(FakeTraining, HasTheCpusQualityLossesOfAdaptivelyChosenAnchors) {
  expect_the_cpus_loss(kQuality, 1e-4);
}

// Images of one size, whose anchors are made once; with graphs, every step after the third is
// launched as such.
std::vector<std::string> one_size(std::vector<std::string> options) {
  options.insert(options.end(), {"--keep-ratio", "off"});
  return options;
}

// What a longer run waits for more often than a shorter one is in its steps: each waits for the one
// before it, after it has been launched itself.
TEST_F(FakeTraining, WaitsForNothingInAStepButTheStepBefore) {
  std::vector<std::string> quality_in_fp16 = kQuality;
  quality_in_fp16.insert(quality_in_fp16.end(), {"--precision", "fp16"});
  for (std::vector<std::string> options : {{}, quality_in_fp16}) {
    const std::string kind = options.empty() ? "" : options.back();
    options = one_size(options);
    options.insert(options.end(), {"--checkpoint-every", "1000epochs"});
    const Outcome few = train("few" + kind, 1, options), many = train("many" + kind, 4, options);
    ASSERT_EQ(many.result.exit_code, 0) << many.result.err;
    std::map<std::string, int> more;
    for (const std::string& who : many.texts("waiting")) ++more[who];
    for (const std::string& who : few.texts("waiting")) --more[who];
    std::erase_if(more, [](const auto& one) { return one.second == 0; });
    EXPECT_THAT(more, ElementsAre(Pair("an event", 3)));
  }
}

// torchvision's v1, whose convolutions have a bias and a ReLU behind them.
const std::vector<std::string> kFirstVersion = {"--norm", "frozen", "--head-norm", "none"};

// Every kernel lacks its last block.
TEST_F(FakeTraining, DoesWithoutKernelsThatAreWrong) {
  std::vector<std::string> quality_in_bf16 = kQuality;
  quality_in_bf16.insert(quality_in_bf16.end(), {"--precision", "bf16"});
  const std::vector<std::vector<std::string>> networks = {{}, kFirstVersion, quality_in_bf16};
  for (std::size_t i = 0; i < networks.size(); ++i) {
    const Outcome broken =
        train(cat("broken", i), 2, networks[i], {{"RETINA_FAKE_BROKEN_KERNEL", "all"}});
    ASSERT_EQ(broken.result.exit_code, 0) << broken.result.err;
    EXPECT_THAT(broken.result.err,
                AllOf(HasSubstr("warning: own kernels: wrong on this GPU; assigners: "),
                      HasSubstr("LibTorch or the CPU does the work of assigners, batch norm, bias "
                                "and ReLU, dropout, group norm, losses, NMS, preparing images")));
    EXPECT_THAT(broken.texts("violations"), IsEmpty());
    train_on_cpu(cat("cpu", i), 2, networks[i]);
    const double expected = loss(cat("cpu", i));
    EXPECT_NEAR(loss(cat("broken", i)), expected, (i < 2 ? 1e-4 : 0.02) * expected);
  }
}

TEST_F(FakeTraining, GoesOnAfterMemoryThatRanOut) {
  const Outcome whole = train("whole", 1);
  ASSERT_EQ(whole.result.exit_code, 0) << whole.result.err;
  const std::int64_t allocations = whole.count("allocations");
  int halved = 0;
  for (int part = 1; part <= 3; ++part) {  // in the step, behind the comparison of kernels
    const std::string run = cat("memory", part);
    const Outcome outcome =
        train(run, 1, {}, {{"RETINA_FAKE_OUT_OF_MEMORY_AT", cat(allocations * (8 + part) / 12)}});
    EXPECT_THAT(outcome.result.exit_code, AnyOf(0, 69)) << outcome.result.err;
    if (outcome.result.exit_code != 0) continue;
    ++halved;
    EXPECT_THAT(outcome.texts("violations"), IsEmpty());
    EXPECT_NEAR(loss(run), loss("whole"), 0.05 * loss("whole")) << "batch norm of fewer images";
  }
  EXPECT_GT(halved, 0);
}

TEST_F(FakeTraining, EndsWhenTheGpuBreaks) {
  const Outcome whole = train("whole", 1);
  ASSERT_EQ(whole.result.exit_code, 0) << whole.result.err;
  const std::int64_t operations = whole.count("operations");
  for (const int part : {0, 2, 3}) {
    const Outcome broken = train(cat("broken", part), 1, {},
                                 {{"RETINA_FAKE_BROKEN_FROM", cat(operations * part / 4)}});
    EXPECT_THAT(broken.result.exit_code, AnyOf(69, 70)) << broken.result.err;
    EXPECT_THAT(broken.result.err, HasSubstr("unspecified launch failure"));
  }
}

}  // namespace
}  // namespace retina
