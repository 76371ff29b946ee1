// retina-train on fake_device.h, with the kernels of shared/ops emulated: that a step waits for
// nothing, that no memory is touched while a copy needs it, and how a run ends when the GPU fails.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <map>
#include <optional>
#include <sstream>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "tests/e2e/job.h"
#include "tests/gpu/fake_device/fake_device.h"
#include "tests/support/child_process.h"

namespace retina {
namespace {

using testing::AllOf, testing::AnyOf, testing::ElementsAre, testing::HasSubstr, testing::IsEmpty,
    testing::IsSupersetOf, testing::Pair;

at::Tensor pinned(int count, float value) {
  return torch::full({count}, value, torch::TensorOptions().pinned_memory(true));
}

TEST(FakeDevice, ComputesAsTheCpu) {
  fake_device::reset();
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

TEST(FakeDevice, SeesHostMemoryThatChangesUnderACopy) {
  fake_device::reset();
  at::Tensor host = pinned(1000, 1);
  const at::Tensor device = host.to(torch::kCUDA, /*non_blocking=*/true);
  EXPECT_EQ(fake_device::counts().waits, 0);
  host.fill_(2);
  EXPECT_THAT(fake_device::violations(), ElementsAre(HasSubstr("changed before it was copied")));
}

TEST(FakeDevice, GivesTheHostNothingBeforeItsCopyIsDone) {
  fake_device::reset();
  const at::Tensor device = torch::full({5}, 3.0F, torch::kCUDA);
  at::Tensor host = pinned(5, 0);
  host.copy_(device, /*non_blocking=*/true);
  EXPECT_TRUE(host.isnan().all().item<bool>());
  torch::cuda::synchronize();
  EXPECT_TRUE(host.eq(3).all().item<bool>());
}

TEST(FakeDevice, HasMemoryThatIsNotANumberUntilItIsWritten) {
  fake_device::reset();
  EXPECT_TRUE(torch::empty({100}, torch::kCUDA).isnan().all().item<bool>());
}

// What a run on the fake device came to.
struct Outcome {
  ProcessResult result;
  std::optional<JsonFile> report = {};  // none where the program was ended by a signal

  std::int64_t count(const char* name) const { return report->root().at(name).as_int(); }
  std::vector<std::string> texts(const char* name) const {
    std::vector<std::string> all;
    const JsonView list = report->root().at(name);
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
  std::vector<double> losses(const std::string& run) const {  // of its steps
    std::vector<double> all;
    std::istringstream lines(read_file(job_ / run + "/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const JsonFile json = JsonFile::parse(line, run);
      if (json.root().has("step_ms")) all.push_back(json.root().at("loss").as_double());
    }
    return all;
  }

  const Job job_;
};

TEST_F(FakeTraining, HasTheCpusLossesAndTouchesNoMemoryThatACopyNeeds) {
  const Outcome fake = train("fake", 2);
  ASSERT_EQ(fake.result.exit_code, 0) << fake.result.err;
  EXPECT_THAT(fake.result.err, HasSubstr("cuda:0"));
  EXPECT_THAT(fake.texts("violations"), IsEmpty());
  EXPECT_GT(fake.count("late_copies"), 2) << "images are not waited for";
  train_on_cpu("cpu", 2);
  EXPECT_NEAR(loss("fake"), loss("cpu"), 1e-4 * loss("cpu"));
  // Batch norm with a residual and a ReLU, and its gradient.
  EXPECT_THAT(fake.texts("kernels"), IsSupersetOf({"normalise<Stored, kValues, true>",
                                                   "add_gradients<Stored, kValues, true>"}));
}

TEST_F(FakeTraining, TrainsBatchNormIn16Bit) {
  for (const std::string precision : {"bf16", "fp16"}) {
    const std::vector<std::string> more = {"--precision", precision};
    const std::string on_device = "fake-" + precision, on_cpu = "cpu-" + precision;
    const Outcome fake = train(on_device, 2, more);
    ASSERT_EQ(fake.result.exit_code, 0) << fake.result.err;
    EXPECT_THAT(fake.texts("violations"), IsEmpty());
    train_on_cpu(on_cpu, 2, more);
    EXPECT_NEAR(loss(on_device), loss(on_cpu), 0.02 * loss(on_cpu));
  }
}

// The other kernels: biases added as batch norm is folded, bfloat16; and detections of a
// validation.
TEST_F(FakeTraining, TrainsFrozenNormInBfloat16AndValidates) {
  const std::vector<std::string> more = {"--norm",       "frozen",         "--head-norm",
                                         "none",         "--precision",    "bf16",
                                         "--validation", job_.val_shards()};
  const Outcome fake = train("fake", 2, more);
  ASSERT_EQ(fake.result.exit_code, 0) << fake.result.err;
  EXPECT_THAT(fake.texts("violations"), IsEmpty());
  train_on_cpu("cpu", 2, more);
  EXPECT_NEAR(loss("fake"), loss("cpu"), 0.02 * loss("cpu"));
  const auto validation_loss = [&](const std::string& run) {
    std::istringstream lines(read_file(job_ / run + "/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const JsonFile json = JsonFile::parse(line, run);
      if (json.root().has("validation")) return json.root().at("validation").at("loss").as_double();
    }
    return 0.0;
  };
  EXPECT_NEAR(validation_loss("fake"), validation_loss("cpu"), 0.02 * validation_loss("cpu"));
}

// The other losses, and anchors chosen box by box.
const std::vector<std::string> kQuality = {"--assigner",    "atss",       "--class-loss",
                                           "quality-focal", "--box-loss", "ciou"};

TEST_F(FakeTraining, HasTheCpusQualityLossesOfAdaptivelyChosenAnchors) {
  const Outcome fake = train("fake", 2, kQuality);
  ASSERT_EQ(fake.result.exit_code, 0) << fake.result.err;
  EXPECT_THAT(fake.texts("violations"), IsEmpty());
  train_on_cpu("cpu", 2, kQuality);
  EXPECT_NEAR(loss("fake"), loss("cpu"), 1e-4 * loss("cpu"));
}

// What a longer run waits for more often than a shorter one is in its steps: each waits for the one
// before it, after it has been launched itself.
TEST_F(FakeTraining, WaitsForNothingInAStepButTheStepBefore) {
  for (std::vector<std::string> options : {{}, kQuality, {"--precision", "fp16"}}) {
    const std::string kind = options.empty() ? "" : options.back();
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
std::vector<std::string> v1(const std::vector<std::string>& more = {}) {
  std::vector<std::string> options = {
      "--norm", "frozen", "--head-norm", "none", "--checkpoint-every", "1000epochs"};
  options.insert(options.end(), more.begin(), more.end());
  return options;
}
// Of a micro-batch: two in each of ResNet-18's eight blocks, one a head on five levels.
constexpr int kFusedConvolutions = 16 + 2 * 5;

TEST_F(FakeTraining, FusesEveryConvolutionWithAReluForTheSameLosses) {
  struct Runs {
    Outcome few, many;  // of one step and of four
    std::int64_t more(const char* what) const { return many.count(what) - few.count(what); }
  };
  const auto runs = [this](const std::string& name, const std::vector<std::string>& options) {
    return Runs{train(name + "-few", 1, options), train(name + "-many", 4, options)};
  };
  const Runs plain = runs("plain", v1()), fused = runs("fused", v1({"--fused-convolutions", "on"}));
  ASSERT_EQ(plain.many.result.exit_code, 0) << plain.many.result.err;
  ASSERT_EQ(fused.many.result.exit_code, 0) << fused.many.result.err;
  EXPECT_THAT(fused.many.result.err, HasSubstr("compared with the separate calls"));
  EXPECT_THAT(fused.many.texts("violations"), IsEmpty());
  EXPECT_EQ(plain.many.count("fused_convolutions"), 0);
  EXPECT_EQ(fused.more("fused_convolutions"), 3 * kFusedConvolutions);
  EXPECT_EQ(fused.more("waits"), 3) << "for the step before";
  EXPECT_LE(fused.more("operations"), plain.more("operations"));
  const std::vector<double> found = losses("fused-many"), expected = losses("plain-many");
  ASSERT_EQ(found.size(), 4U);
  ASSERT_EQ(expected.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(found[i], expected[i], 1e-4 * expected[i]) << i;
  for (const Runs* one : {&plain, &fused}) {
    EXPECT_THAT(one->many.texts("kernels"),
                IsSupersetOf({"pass_and_add<Stored, kValues>", "finish_bias<Stored>"}));
  }
}

TEST_F(FakeTraining, FusesConvolutionsInBfloat16) {
  const Outcome plain = train("plain", 1, v1({"--precision", "bf16"})),
                fused =
                    train("fused", 1, v1({"--precision", "bf16", "--fused-convolutions", "on"}));
  ASSERT_EQ(plain.result.exit_code, 0) << plain.result.err;
  ASSERT_EQ(fused.result.exit_code, 0) << fused.result.err;
  EXPECT_THAT(fused.result.err, HasSubstr("compared with the separate calls"));
  EXPECT_GE(fused.count("fused_convolutions"), kFusedConvolutions);
  EXPECT_NEAR(loss("fused"), loss("plain"), 0.01 * loss("plain"));
}

TEST_F(FakeTraining, DoesNotFuseConvolutionsThatCudnnGetsWrong) {
  const Outcome plain = train("plain", 1, v1());
  ASSERT_EQ(plain.result.exit_code, 0) << plain.result.err;
  // By their numbers in fake_device.h.
  const std::vector<const char*> problems = {"times as much as rounding may",
                                             "turns NaN into a number", "unable to find an engine"};
  for (std::size_t fault = 1; fault <= problems.size(); ++fault) {
    const std::string run = cat("fault", fault);
    const Outcome wrong = train(run, 1, v1({"--fused-convolutions", "on"}),
                                {{"RETINA_FAKE_FUSED_CONVOLUTION", cat(fault)}});
    ASSERT_EQ(wrong.result.exit_code, 0) << wrong.result.err;
    EXPECT_THAT(wrong.result.err, AllOf(HasSubstr("warning: --fused-convolutions on: 3x3"),
                                        HasSubstr(problems[fault - 1])));
    EXPECT_LE(wrong.count("fused_convolutions"), 2) << "those of the comparison";
    EXPECT_EQ(loss(run), loss("plain"));
  }
}

TEST_F(FakeTraining, SaysWhereThereIsNothingToFuse) {
  const Outcome outcome = train("normed", 1, {"--fused-convolutions", "on"});
  ASSERT_EQ(outcome.result.exit_code, 0) << outcome.result.err;
  EXPECT_THAT(outcome.result.err,
              HasSubstr("no convolution of this network has a bias and a ReLU"));
  EXPECT_EQ(outcome.count("fused_convolutions"), 0);
}

TEST_F(FakeTraining, GoesOnAfterMemoryThatRanOut) {
  const Outcome whole = train("whole", 1);
  ASSERT_EQ(whole.result.exit_code, 0) << whole.result.err;
  const std::int64_t allocations = whole.count("allocations");
  int halved = 0;
  for (int part = 1; part <= 3; ++part) {
    const std::string run = cat("memory", part);
    const Outcome outcome =
        train(run, 1, {}, {{"RETINA_FAKE_OUT_OF_MEMORY_AT", cat(allocations * part / 4)}});
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
  for (int part = 0; part < 4; ++part) {
    const Outcome broken = train(cat("broken", part), 1, {},
                                 {{"RETINA_FAKE_BROKEN_FROM", cat(operations * part / 4)}});
    EXPECT_THAT(broken.result.exit_code, AnyOf(69, 70)) << broken.result.err;
    EXPECT_THAT(broken.result.err, HasSubstr("unspecified launch failure"));
  }
}

}  // namespace
}  // namespace retina
