// Orders between streams on fake_device.h: that a missing one is reported, and that training on
// several ranks, whose gradients NCCL sums on streams of its own, misses none.
#include "tests/gpu/fake_device/streams.h"

#include <ATen/Parallel.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <cstring>

#include "shared/base/cat.h"
#include "shared/model/device.h"
#include "shared/numeric/random.h"
#include "shared/ops/image_upload.h"
#include "tests/gpu/fake_device/fake_device.h"
#include "tests/support/ranks/thread_world.h"
#include "train/reduce/nccl_communicator.h"
#include "train/step/replica.h"

namespace retina {
namespace {

using testing::AllOf, testing::ElementsAre, testing::HasSubstr, testing::IsEmpty;

const c10::Device kGpu(c10::kCUDA, 0);

// Of noise, in memory that is overwritten as soon as nobody holds it: the loader's next batch.
Batch batch_of(std::uint32_t number) {
  constexpr int kSide = 64, kImages = 2;
  constexpr std::size_t kImageBytes = std::size_t{3} * kSide * kSide;
  const std::shared_ptr<void> memory = allocate_pinned(kImages * kImageBytes);
  auto* const bytes = static_cast<std::uint8_t*>(memory.get());
  const RandomStream random{.seed = 20261128, .use = RandomUse::kTest, .stream = number};
  for (std::size_t i = 0; i < kImages * kImageBytes; ++i) {
    bytes[i] = static_cast<std::uint8_t>(random.below(i, 256));
  }
  Batch batch{
      .stored = {bytes,
                 [memory](std::uint8_t* old) { std::memset(old, 0, kImages * kImageBytes); }},
      .padded = {kSide, kSide},
      .part = {.real_image_count = 2 * kImages}};
  for (int i = 0; i < kImages; ++i) {
    batch.samples.push_back(Sample{.slot = {.flip = (static_cast<int>(number) + i) % 2 == 1},
                                   .original_width_px = kSide,
                                   .original_height_px = kSide,
                                   .width_px = kSide,
                                   .height_px = kSide,
                                   .labels = {i}});
    batch.offsets.push_back(static_cast<std::size_t>(i) * kImageBytes);
  }
  return batch;
}

class Streams : public testing::Test {
 protected:
  void SetUp() override { fake_device::reset(); }
  void TearDown() override { fake_device::reset(); }

  static c10::Stream new_stream() {
    return c10::impl::VirtualGuardImpl(c10::kCUDA).getNewStream(kGpu);
  }
  static c10::Event recorded(const c10::Stream& stream) {
    c10::Event event(c10::kCUDA);
    event.record(stream);
    return event;
  }

  const c10::Stream main_ = c10::Stream(c10::Stream::DEFAULT, kGpu), other_ = new_stream();
};

TEST_F(Streams, ReportWhatReadsBeforeAnotherHasWritten) {
  const at::Tensor x = torch::ones({8}, kGpu);
  const c10::StreamGuard guard(other_);
  const at::Tensor y = x + 1;
  EXPECT_THAT(fake_device::violations(),
              ElementsAre(AllOf(HasSubstr("aten::add"), HasSubstr("reads 32 bytes"))));
}

TEST_F(Streams, ReportWhatWritesBeforeAnotherHasReadOrWritten) {
  const at::Tensor x = torch::ones({8}, kGpu);
  torch::cuda::synchronize();
  const at::Tensor y = x + 1;
  {
    const c10::StreamGuard guard(other_);
    at::Tensor(x).fill_(2);
  }
  at::Tensor(x).fill_(3);
  EXPECT_THAT(fake_device::violations(),
              ElementsAre(AllOf(HasSubstr("writes"), HasSubstr("that aten::add")),
                          AllOf(HasSubstr("writes"), HasSubstr("that aten::fill_"))));
}

TEST_F(Streams, AreNotInOrderByAnEventThatIsTooEarly) {
  const at::Tensor x = torch::ones({8}, kGpu);
  torch::cuda::synchronize();
  const c10::Event early = recorded(main_);
  at::Tensor(x).fill_(2);
  early.block(other_);
  early.synchronize();
  const c10::StreamGuard guard(other_);
  const at::Tensor y = x + 1;
  EXPECT_THAT(fake_device::violations(), ElementsAre(HasSubstr("reads")));
}

TEST_F(Streams, KernelsAreInOrderToo) {
  const Batch batch = batch_of(1);
  ImageUpload upload(kGpu, {}, at::kFloat);
  const at::Tensor images = upload.images(batch);
  EXPECT_THAT(fake_device::violations(), IsEmpty());
  const at::Tensor again = upload.images(batch);
  const c10::StreamGuard guard(other_);
  EXPECT_TRUE((again + 0).defined());
  EXPECT_THAT(fake_device::violations(),
              ElementsAre(AllOf(HasSubstr("aten::add"), HasSubstr("that prepare"))));
}

TEST_F(Streams, ReportMemoryThatIsFreedWhileAnotherMayUseIt) {
  for (const bool records : {true, false}) {
    at::Tensor x = torch::ones({8}, kGpu);
    recorded(main_).block(other_);
    at::Tensor y;
    {
      const c10::StreamGuard guard(other_);
      y = x + 1;
    }
    if (records) x.record_stream(other_);
    x.reset();
    EXPECT_EQ(fake_device::violations().size(), records ? 0U : 1U);
    torch::cuda::synchronize();
  }
  EXPECT_THAT(fake_device::violations(), ElementsAre(HasSubstr("freed for stream 0")));
}

// Losses and gradient norms of two steps of two ranks, two micro-batches each; a step's metrics
// are taken when the next one is launched.
std::vector<double> trained(c10::Device device, const WireOptions& wire) {
  std::vector<double> values;
  ThreadWorld world({.ring = {.ranks = 2}});
  const auto outcomes = world.run([&](ThreadRank& rank) {
    ReplicaOptions options;
    options.task.model.task = Task::kClassification;
    options.task.model.backbone = "resnet18";
    options.task.model.norm = Norm::kFrozen;
    options.task.model.class_count = 2;
    options.device = device;
    options.buckets = {.bucket_bytes = std::size_t{8} << 20, .wire = wire};
    options.clip_norm = 1;
    options.ema = 0.9;
    Replica replica(options, rank);
    const auto take = [&] {
      const StepSums sums = replica.take_metrics();
      if (!rank.is_root()) return;
      values.push_back(total_loss(Task::kClassification, sums.of_task));
      values.push_back(sums.gradient_norm);
    };
    for (std::uint32_t step = 0; step < 2; ++step) {
      replica.begin_step();
      for (const bool is_last : {false, true}) {
        const auto stream = 10 * step + 2 * static_cast<std::uint32_t>(rank.rank()) + is_last;
        const Batch batch = batch_of(stream);
        replica.backward(replica.loss(replica.forward(batch), batch), is_last);
      }
      replica.all_reduce();
      replica.update(0.01, step + 1);
      if (step > 0) take();
    }
    take();
  });
  for (const RankOutcome& outcome : outcomes) EXPECT_EQ(outcome.message, "");
  return values;
}

TEST(TwoRanksOnFakeDevice, HaveSumsThatAnyStreamMayUse) {
  fake_device::reset();
  ThreadWorld world({.ring = {.ranks = 2}});
  const auto outcomes = world.run([](ThreadRank& rank) {
    const auto nccl = make_nccl_communicator(rank, 0);
    const at::Tensor values = torch::full({1000}, rank.rank() + 1, kGpu).to(torch::kFloat);
    torch::cuda::synchronize();
    nccl->all_reduce(values.data_ptr(), 1000, ElementType::kFloat32, ReduceOp::kSum);
    EXPECT_TRUE((values - 3).eq(0).all().item<bool>());
  });
  for (const RankOutcome& outcome : outcomes) EXPECT_EQ(outcome.message, "");
  EXPECT_THAT(fake_device::violations(), IsEmpty());
}

TEST(TwoRanksOnFakeDevice, TrainAsOnTheCpuAndMissNoOrder) {
  at::set_num_threads(1);
  for (const ElementType wire : {ElementType::kFloat32, ElementType::kFloat16}) {
    fake_device::reset({.seed = 20261128});
    const std::vector<double> gpu = trained(kGpu, {.type = wire});
    EXPECT_THAT(fake_device::violations(), IsEmpty());
    const std::vector<double> cpu = trained(c10::kCPU, {.type = wire});
    ASSERT_EQ(gpu.size(), 4U);
    ASSERT_EQ(cpu.size(), 4U);
    for (std::size_t i = 0; i < gpu.size(); ++i) {
      EXPECT_NEAR(gpu[i], cpu[i], 1e-3 * cpu[i]) << element_name(wire) << ", value " << i;
    }
  }
}

}  // namespace
}  // namespace retina
