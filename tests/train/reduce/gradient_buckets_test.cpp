#include "train/reduce/gradient_buckets.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "shared/base/cat.h"
#include "shared/numeric/random.h"
#include "tests/support/ranks/thread_world.h"

namespace retina {
namespace {

// Gradients after one step, what clipping would see, and whether a bucket travelled twice.
struct Step {
  std::vector<at::Tensor> gradients = {};
  double norm = 0;
  std::int64_t repeated_count = 0;
};

at::Tensor drawn(std::vector<std::int64_t> sizes, std::uint32_t stream, float largest) {
  const RandomStream random{20261121, RandomUse::kTest, stream};
  at::Tensor values = torch::empty(sizes);
  float* data = values.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    data[i] = static_cast<float>(random.unit(static_cast<std::uint64_t>(i)) - 0.5) * largest;
  }
  return values;
}

// Each rank's loss has another gradient for each parameter. `largest` is about theirs.
// `scale`: of the loss.
std::vector<Step> run_step(int ranks, const BucketOptions& options, float largest = 0.1F,
                           const at::Tensor& scale = {}) {
  std::vector<Step> steps(static_cast<std::size_t>(ranks));
  ThreadWorld world({.ring = {.ranks = ranks}});
  const auto outcomes = world.run([&](ThreadRank& rank) {
    const std::vector<std::vector<std::int64_t>> shapes = {
        {37}, {8, 5, 3, 3}, {1}, {64, 11}, {500}};
    NamedTensors parameters;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      at::Tensor value = torch::ones(shapes[i]);
      if (value.dim() == 4) value = value.contiguous(at::MemoryFormat::ChannelsLast);
      parameters.push_back({cat("p", i), value.requires_grad_()});
    }
    GradientBuckets buckets(parameters, options, rank, scale);
    buckets.expect_last_backward();
    at::Tensor loss = torch::zeros({});
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const auto stream = static_cast<std::uint32_t>(100 * rank.rank()) + static_cast<unsigned>(i);
      loss = loss + (parameters[i].tensor * drawn(shapes[i], stream, largest)).sum();
    }
    loss.backward(scale);
    buckets.all_reduce();
    Step& step = steps[static_cast<std::size_t>(rank.rank())];
    for (const auto& parameter : parameters) {
      step.gradients.push_back(parameter.tensor.grad().clone());
    }
    step.norm = buckets.norm().item<double>();
    step.repeated_count = buckets.repeated_count();
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.message, "");
  return steps;
}

bool same_bits(const Step& a, const Step& b) {
  bool same = a.norm == b.norm && a.gradients.size() == b.gradients.size();
  for (std::size_t i = 0; same && i < a.gradients.size(); ++i) {
    same = torch::equal(a.gradients[i], b.gradients[i]);
  }
  return same;
}

constexpr ElementType kWires[] = {ElementType::kFloat32, ElementType::kBFloat16,
                                  ElementType::kFloat16};

TEST(GradientBuckets, OfSeveralRanksAreFilledInPlaceByBackward) {
  ThreadWorld world({.ring = {.ranks = 2}});
  world.run([](ThreadRank& rank) {
    const at::Tensor value =
        torch::ones({4, 3, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
    GradientBuckets buckets({{"a", value}}, {}, rank);
    const void* place = value.grad().data_ptr();
    for (int pass = 0; pass < 2; ++pass) (value.sum() * 2).backward();
    EXPECT_EQ(value.grad().data_ptr(), place);
    EXPECT_EQ(value.grad().strides(), value.strides());
    EXPECT_TRUE(torch::equal(value.grad(), torch::full_like(value.detach(), 4)));
    buckets.zero();
    EXPECT_EQ(buckets.norm().item<double>(), 0);
  });
}

// What a rank hands to the communicator in a step: nothing grows with the ranks, nothing goes to
// rank 0 alone.
TEST(GradientBuckets, CallTheSameCollectivesOnAnyNumberOfRanks) {
  constexpr int kBuckets = 3, kCount = 100;
  for (const int ranks : {2, 8, 64}) {
    std::vector<CommStats> before(static_cast<std::size_t>(ranks));
    ThreadWorld world({.ring = {.ranks = ranks}});
    const auto outcomes = world.run([&](ThreadRank& rank) {
      NamedTensors parameters;
      for (int i = 0; i < kBuckets; ++i) {
        parameters.push_back({cat("p", i), torch::ones({kCount}).requires_grad_()});
      }
      GradientBuckets buckets(parameters, {.bucket_bytes = 1}, rank);
      before[static_cast<std::size_t>(rank.rank())] = rank.stats();
      buckets.expect_last_backward();
      for (const NamedTensor& parameter : parameters) parameter.tensor.sum().backward();
      buckets.all_reduce();
    });
    for (const auto& outcome : outcomes) EXPECT_EQ(outcome.message, "");
    for (std::size_t rank = 0; rank < before.size(); ++rank) {
      const CommStats &all = outcomes[rank].stats, &start = before[rank];
      EXPECT_EQ(all.all_reduce.calls - start.all_reduce.calls, kBuckets);
      EXPECT_EQ(all.all_reduce.bytes - start.all_reduce.bytes, kBuckets * kCount * 4);
      EXPECT_EQ(all.gather.calls + all.broadcast.calls + all.barrier.calls,
                start.gather.calls + start.broadcast.calls + start.barrier.calls);
    }
  }
}

TEST(GradientBuckets, InRankOrderGiveTheSameBitsForAnyPlan) {
  for (const int ranks : {2, 3, 4}) {
    for (const ElementType type : kWires) {
      // Values beyond what fp16 carries in some of the buckets only.
      const float largest = type == ElementType::kFloat16 ? 140.0F : 0.1F;
      const WireOptions wire{.type = type, .ordered = true};
      const Step first = run_step(ranks, {.bucket_bytes = 1, .wire = wire}, largest)[0];
      EXPECT_EQ(first.repeated_count > 0, type == ElementType::kFloat16);
      for (const std::size_t bytes : {300U, 1000U, 2500U, 1U << 20, 0U}) {
        for (const Step& step : run_step(
                 ranks, {.bucket_bytes = bytes, .wire = wire, .overlap = bytes > 500}, largest)) {
          EXPECT_TRUE(same_bits(step, first))
              << ranks << " ranks, " << element_name(type) << ", " << bytes;
        }
      }
    }
  }
}

// A power of 2 rounds nothing.
TEST(GradientBuckets, DivideByTheScaleBeforeTheyTravel) {
  const at::Tensor scale = torch::tensor(65536.0F);
  for (const int ranks : {1, 3}) {
    for (const ElementType type : kWires) {
      for (const bool overlap : {false, true}) {
        const BucketOptions options = {
            .bucket_bytes = 1000, .wire = {.type = type, .ordered = true}, .overlap = overlap};
        const auto plain = run_step(ranks, options), scaled = run_step(ranks, options, 0.1F, scale);
        for (std::size_t rank = 0; rank < plain.size(); ++rank) {
          EXPECT_TRUE(same_bits(scaled[rank], plain[rank])) << ranks << " " << element_name(type);
          EXPECT_EQ(scaled[rank].repeated_count, 0);
        }
      }
    }
  }
}

// Every rank has the same gradient, and from it the same next scale.
TEST(GradientBuckets, TellEveryRankOfAnOverflow) {
  for (const ElementType type : kWires) {
    const BucketOptions options = {.bucket_bytes = 1000, .wire = {.type = type}};
    for (const Step& step : run_step(2, options, 0x1p20F, torch::tensor(0x1p120F))) {
      EXPECT_FALSE(std::isfinite(step.norm)) << element_name(type);
    }
  }
}

}  // namespace
}  // namespace retina
