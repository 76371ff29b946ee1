// A step that runs out of memory: it is repeated with fewer images at once, and comes to the same.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/network_shape.h"
#include "shared/numeric/random.h"
#include "tests/support/ranks/thread_world.h"
#include "train/memory_need.h"
#include "train/trainer.h"
#include "train/training_run.h"

namespace retina {
namespace {

using testing::HasSubstr;

// Tensors of at least this many bytes, as activations are: what an update allocates is smaller.
constexpr std::size_t kLargeBytes = 2048;

// Allocations of large tensors by this thread.
struct LargeAllocations {
  std::int64_t count = 0;
  std::vector<std::int64_t> fail_at = {};  // by number, rising
};
thread_local LargeAllocations* watched = nullptr;

// LibTorch's own allocator, which fails where the thread's list says so.
class FailingAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (watched != nullptr && bytes >= kLargeBytes) {
      const std::int64_t number = watched->count++;
      const auto& fail_at = watched->fail_at;
      if (std::find(fail_at.begin(), fail_at.end(), number) != fail_at.end()) {
        if (number % 2 == 0) throw std::bad_alloc();
        TORCH_CHECK(false, "DefaultCPUAllocator: can't allocate memory: you tried to allocate ",
                    bytes, " bytes.");
      }
    }
    return own_.allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return own_.raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    own_.copy_data(to, from, bytes);
  }

 private:
  c10::Allocator& own_ = *c10::GetDefaultCPUAllocator();
};

// Puts it in the place of LibTorch's for its life.
class FailingAllocatorScope {
 public:
  FailingAllocatorScope() { c10::SetCPUAllocator(&failing_, 0); }
  ~FailingAllocatorScope() { c10::SetCPUAllocator(c10::GetDefaultCPUAllocator(), 0); }
  FailingAllocatorScope(const FailingAllocatorScope&) = delete;
  FailingAllocatorScope& operator=(const FailingAllocatorScope&) = delete;

 private:
  FailingAllocator failing_;
};

// Images that decode without end, but for one attempt, which finds no memory.
class FailingSource : public SampleSource {
 public:
  FailingSource(const SampleSource& source, std::int64_t fail_at)
      : source_(source), fail_at_(fail_at) {}
  const ImageIndex& index() const override { return source_.index(); }
  Sample load(const BatchRequest& request, std::size_t place, JpegDecoder& decoder,
              PixelTarget pixels) const override {
    if (count_++ == fail_at_) throw std::bad_alloc();
    return source_.load(request, place, decoder, pixels);
  }

 private:
  const SampleSource& source_;
  const std::int64_t fail_at_;
  mutable std::atomic<std::int64_t> count_ = 0;
};

constexpr int kImages = 8;  // of a step
constexpr int kSteps = 5;

TrainOptions small_options(Task task) {
  TrainOptions options;
  options.task = task;
  options.data.synthetic = kImages * kSteps;
  options.data.synthetic_size = "64x64";
  options.data.min_sides_px = std::vector<std::int64_t>{task == Task::kDetection ? 64 : 32};
  options.data.max_side_px = 64;
  options.data.decode_threads = 1;
  options.model.backbone = task == Task::kDetection ? "resnet18" : kCifarCnn;
  options.model.norm = Norm::kFrozen;
  options.model.anchor_sizes = {16, 32, 64, 128, 256};
  options.length.steps = kSteps;
  options.length.images_per_step = kImages;
  options.optimizer.clip_norm = 1;
  options.schedule.warmup_steps = 0;
  options.compute.device = DeviceChoice::kCpu;
  return options;
}

// What a training came to on a rank.
struct Trained {
  int exit_code = -1;
  std::int64_t steps = 0;
  int micro_batch = 0;
  at::Tensor weights = {};  // all in one row
  at::Tensor change = {};   // of the weights, since before the first step
  std::int64_t large_allocations = 0;
};

struct Failures {
  std::vector<std::int64_t> allocations = {};  // of tensors, of this rank, from the first step on
  std::optional<std::int64_t> image = {};      // number of the image to decode
};

at::Tensor weights_of(Replica& replica) {
  std::vector<at::Tensor> rows;
  for (const auto& [name, tensor] : state_of(replica.network())) {
    if (tensor.is_floating_point()) rows.push_back(tensor.detach().flatten());
  }
  return at::cat(rows);
}

Trained train(const TrainOptions& options, Communicator& communicator,
              const Failures& failures = {}) {
  Job job{.options = options, .effective_options = {}, .communicator = communicator};
  job.data.emplace(options);
  job.data->make_plan(options);
  std::optional<FailingSource> source;
  if (failures.image) {
    source.emplace(*job.data->source, *failures.image);
    job.data->train.emplace(
        TrainingSet{.source = *source, .categories = job.data->train->categories});
  }
  TrainingRun run(job);
  run.fit_into_memory();
  const at::Tensor before = weights_of(run.replica);
  Trainer trainer(run);
  LargeAllocations allocations{.fail_at = failures.allocations};
  watched = &allocations;
  Trained trained;
  try {
    trained.exit_code = trainer.run();
  } catch (...) {
    watched = nullptr;
    throw;
  }
  watched = nullptr;
  trained.steps = run.state.step();
  trained.micro_batch = run.micro_batch();
  trained.weights = weights_of(run.replica);
  trained.change = trained.weights - before;
  trained.large_allocations = allocations.count;
  return trained;
}

// Of what the steps did.
double relative_difference(const Trained& a, const Trained& b) {
  return ((a.change - b.change).norm() / b.change.norm()).item<double>();
}

class OutOfMemoryStep : public testing::Test {
 protected:
  OutOfMemoryStep() { at::set_num_threads(1); }

  Trained alone(const TrainOptions& options, const Failures& failures = {}) const {
    const auto communicator = make_self_communicator();
    return train(options, *communicator, failures);
  }

  FailingAllocatorScope scope_;
};

// Other orders of addition in f32, over five steps; a lost image would be more than a tenth.
constexpr double kRounding = 1e-4;
// In one step of a detector from random weights with a frozen norm, which magnifies them.
constexpr double kDetectorRounding = 1e-3;

TEST_F(OutOfMemoryStep, IsRepeatedWithFewerImagesWhereverTheAllocationFails) {
  for (const Task task : {Task::kClassification, Task::kDetection}) {
    TrainOptions options = small_options(task);
    if (task == Task::kDetection) options.length.steps = 1;
    const double rounding = task == Task::kDetection ? kDetectorRounding : kRounding;
    const std::int64_t steps = *options.length.steps;
    const Trained whole = alone(options);
    ASSERT_EQ(whole.steps, steps);
    ASSERT_EQ(whole.micro_batch, kImages);
    ASSERT_GT(whole.large_allocations, 20 * steps);
    ASSERT_GT(whole.change.norm().item<double>(), 1e-4);
    const int seeds = task == Task::kDetection ? 6 : 40;
    for (int seed = 0; seed < seeds; ++seed) {
      const RandomStream random{.seed = static_cast<std::uint64_t>(seed), .use = RandomUse::kTest};
      std::vector<std::int64_t> fail_at;
      for (std::uint64_t i = 0; i < random.below(0, 3) + 1; ++i) {
        fail_at.push_back(static_cast<std::int64_t>(
            random.below(i + 1, static_cast<std::uint64_t>(whole.large_allocations))));
      }
      const Trained halved = alone(options, {.allocations = fail_at});
      EXPECT_EQ(halved.exit_code, 0) << "seed " << seed;
      EXPECT_EQ(halved.steps, steps) << "seed " << seed;
      EXPECT_LT(halved.micro_batch, kImages) << "seed " << seed;
      EXPECT_LE(relative_difference(halved, whole), rounding) << "seed " << seed;
    }
  }
}

TEST_F(OutOfMemoryStep, IsRepeatedWhereDecodingFails) {
  const TrainOptions options = small_options(Task::kClassification);
  const Trained whole = alone(options);
  for (const std::int64_t image : {0, 3, 8, 21, 39}) {
    const Trained halved = alone(options, {.image = image});
    EXPECT_EQ(halved.steps, kSteps);
    EXPECT_EQ(halved.micro_batch, kImages / 2) << image;
    EXPECT_LE(relative_difference(halved, whole), kRounding) << image;
  }
}

TEST_F(OutOfMemoryStep, LeavesNoTraceInTheStatisticsOfBatchNorm) {
  TrainOptions options = small_options(Task::kDetection);
  options.model.norm = Norm::kBatch;
  options.length.micro_batch = "4";
  const Trained first = alone(options);
  // With half as many from the start: the first step fails before it has done anything else.
  options.length.micro_batch = "2";
  const Trained halves = alone(options);
  options.length.micro_batch = "4";
  const std::int64_t in_step_one = first.large_allocations / kSteps;
  for (const std::int64_t fail_at : {std::int64_t{1}, in_step_one / 2, in_step_one - 10}) {
    const Trained halved = alone(options, {.allocations = {fail_at}});
    EXPECT_EQ(halved.micro_batch, 2);
    EXPECT_TRUE(at::equal(halved.weights, halves.weights)) << fail_at;
  }
  EXPECT_FALSE(at::equal(first.weights, halves.weights)) << "batch norm sees the micro-batch";
}

TEST_F(OutOfMemoryStep, EndsTheRunWhereOneImageIsTooMany) {
  TrainOptions options = small_options(Task::kClassification);
  options.length.micro_batch = "1";
  try {
    alone(options, {.allocations = {17}});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
    EXPECT_THAT(error.what(), HasSubstr("step 1: out of memory"));
    EXPECT_THAT(error.what(), HasSubstr("with 1 image at a time, which needs about"));
    EXPECT_THAT(error.hint(), HasSubstr("--min-side"));
  }
}

TEST_F(OutOfMemoryStep, IsRepeatedByAllRanksWhenOneOfThemFails) {
  const TrainOptions options = small_options(Task::kClassification);
  const auto train_on_two = [&](const Failures& of_rank_1) {
    std::vector<Trained> trained(2);
    ThreadWorld world({.ring = {.ranks = 2}});
    const auto outcomes = world.run([&](ThreadRank& rank) {
      trained[static_cast<std::size_t>(rank.rank())] =
          train(options, rank, rank.rank() == 1 ? of_rank_1 : Failures{});
    });
    for (const auto& outcome : outcomes) EXPECT_EQ(outcome.message, "");
    return trained;
  };
  const std::vector<Trained> whole = train_on_two({});
  ASSERT_EQ(whole[1].micro_batch, kImages / 2);
  for (int seed = 0; seed < 24; ++seed) {
    const RandomStream random{.seed = static_cast<std::uint64_t>(seed), .use = RandomUse::kTest};
    const auto fail_at = static_cast<std::int64_t>(
        random.below(0, static_cast<std::uint64_t>(whole[1].large_allocations)));
    const std::vector<Trained> halved = train_on_two({.allocations = {fail_at}});
    for (const Trained& rank : halved) {
      EXPECT_EQ(rank.exit_code, 0) << "seed " << seed;
      EXPECT_EQ(rank.steps, kSteps) << "seed " << seed;
      EXPECT_EQ(rank.micro_batch, kImages / 4) << "seed " << seed;
      EXPECT_LE(relative_difference(rank, whole[0]), kRounding) << "seed " << seed;
    }
    EXPECT_TRUE(at::equal(halved[0].weights, halved[1].weights)) << "seed " << seed;
  }
}

// The other rank waits in a layer: there is no way to tell it.
TEST_F(OutOfMemoryStep, EndsTheJobWithSyncBn) {
  TrainOptions options = small_options(Task::kDetection);
  options.model.norm = Norm::kBatch;
  options.model.sync_bn = true;
  ThreadWorld world({.ring = {.ranks = 2}});
  const auto outcomes = world.run([&](ThreadRank& rank) {
    train(options, rank, rank.rank() == 1 ? Failures{.allocations = {200}} : Failures{});
  });
  EXPECT_THAT(outcomes[1].message, HasSubstr("out of memory"));
  EXPECT_THAT(outcomes[0].message, HasSubstr("rank 1"));
}

class MemoryNeedTest : public OutOfMemoryStep {};

// Small images tell what large ones need.
TEST_F(MemoryNeedTest, IsWhatAStepTakes) {
  struct Shape {
    int width, height, images;
  };
  for (const Norm norm : {Norm::kFrozen, Norm::kBatch}) {
    ReplicaOptions options;
    options.task.model.backbone = "resnet18";
    options.task.model.class_count = 20;
    options.task.model.norm = norm;
    const auto communicator = make_self_communicator();
    Replica replica(options, *communicator);
    const std::uint64_t before = replica.hash();
    const at::Tensor weights = weights_of(replica);
    const StepMemory step(replica, {512, 512});
    EXPECT_EQ(replica.hash(), before);
    EXPECT_TRUE(at::equal(weights_of(replica), weights)) << "batch norm's statistics too";
    for (const auto& [width, height, images] : {Shape{320, 256, 1}, {256, 256, 3}, {512, 384, 1}}) {
      const double predicted = step.bytes(static_cast<double>(width * height * images));
      const auto held = replica.trace_step(grey_batch({width, height}, images, replica.network()));
      const auto taken = static_cast<double>(*std::max_element(held.begin(), held.end()));
      RecordProperty("ratio", std::to_string(predicted / taken));
      EXPECT_NEAR(predicted / taken, 1, 0.1) << width << " x " << height << " x " << images;
    }
  }
}

}  // namespace
}  // namespace retina
