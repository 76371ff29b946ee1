#include "shared/ops/dropout.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "shared/base/error.h"
#include "shared/numeric/random.h"
#include "tests/ops/test_tensors.h"

namespace retina {
namespace {

constexpr DropoutDraw kDraw = {.seed = 0x0123456789abcdef, .step = 41, .layer = 3};

at::Tensor slots_from(std::int64_t first, std::int64_t count) {
  return at::arange(first, first + count, at::kLong);
}

// What is kept of [N, ...] values, as 0 and 1.
at::Tensor mask_of(std::vector<std::int64_t> shape, const DropoutDraw& draw = kDraw,
                   double p = 0.5) {
  const at::Tensor ones = torch::ones(shape, at::kDouble);
  return dropout(ones, p, slots_from(0, shape.front()), draw).ne(0).to(at::kDouble);
}

TEST(Dropout, KeepsAndScalesByTheNumberOfSlotAndElement) {
  constexpr double p = 0.3;
  const at::Tensor x = random_tensor({.seed = 1, .shape = {3, 4, 2, 5}, .low = -2, .high = 2});
  const at::Tensor slots = torch::tensor({9L, 0L, 65535L});
  // The ends of each range, and what is between.
  for (const DropoutDraw& draw : {DropoutDraw{.seed = 1, .step = 0, .layer = 0}, kDraw,
                                  DropoutDraw{.seed = std::numeric_limits<std::uint64_t>::max(),
                                  .step = (std::int64_t{1} << 32) - 1,
                                  .layer = 65535}}) {
    const at::Tensor y = dropout(x, p, slots, draw).view({3, 40});
    for (std::int64_t n = 0; n < 3; ++n) {
      const RandomStream random = {
          .seed = draw.seed,
          .use = RandomUse::kDropout,
          .stream = static_cast<std::uint32_t>(draw.layer) * 65536 +
                    static_cast<std::uint32_t>(slots[n].item<std::int64_t>())};
      for (std::int64_t e = 0; e < 40; ++e) {
        const auto place =
            (static_cast<std::uint64_t>(draw.step) << 32) + static_cast<std::uint64_t>(e);
        const double expected =
            random.unit(place) >= p ? x.view({3, 40})[n][e].item<double>() * (1 / (1 - p)) : 0;
        EXPECT_EQ(y[n][e].item<double>(), expected) << n << " " << e;
      }
    }
  }
}

// Over 2^20 draws; bounds of five standard deviations.
TEST(Dropout, DropsItsShareIndependentlyOfNeighbours) {
  for (const double p : {0.1, 0.5, 0.8}) {
    const at::Tensor mask = mask_of({16, 1 << 16}, kDraw, p);
    const double sigma = std::sqrt(p * (1 - p)),
                 bound = 5 / std::sqrt(static_cast<double>(1 << 20));
    EXPECT_NEAR(mask.mean().item<double>(), 1 - p, bound * sigma) << p;
    EXPECT_NEAR(mask.var(/*unbiased=*/false).item<double>(), sigma * sigma, bound) << p;
    const at::Tensor centred = (mask - (1 - p)) / sigma;
    for (const std::int64_t dimension : {0, 1}) {
      const at::Tensor products = centred * centred.roll(1, dimension);
      EXPECT_NEAR(products.mean().item<double>(), 0, bound) << p << " dimension " << dimension;
    }
    const at::Tensor y =
        dropout(torch::ones({16, 1 << 16}, at::kDouble), p, slots_from(0, 16), kDraw);
    EXPECT_NEAR(y.mean().item<double>(), 1, bound * sigma / (1 - p)) << p;
  }
}

TEST(Dropout, OfAnImageDoesNotDependOnItsBatch) {
  const at::Tensor x = random_tensor({.seed = 2, .shape = {8, 3, 7, 5}, .low = 1, .high = 2});
  const at::Tensor whole = dropout(x, 0.4, slots_from(0, 8), kDraw);
  for (const std::int64_t size : {1, 2, 4}) {
    std::vector<at::Tensor> parts;
    for (std::int64_t first = 0; first < 8; first += size) {
      parts.push_back(
          dropout(x.slice(0, first, first + size), 0.4, slots_from(first, size), kDraw));
    }
    EXPECT_TRUE(at::cat(parts).equal(whole)) << size;
  }
  const at::Tensor order = torch::tensor({5L, 1L, 7L, 0L, 2L, 6L, 4L, 3L});
  EXPECT_TRUE(
      dropout(x.index_select(0, order), 0.4, order, kDraw).equal(whole.index_select(0, order)));
}

TEST(Dropout, DoesNotDependOnTheMemoryAndKeepsItsFormat) {
  const at::Tensor x = random_tensor({.seed = 3, .shape = {2, 6, 5, 4}, .low = 1, .high = 2});
  const at::Tensor slots = slots_from(0, 2), expected = dropout(x, 0.4, slots, kDraw);
  EXPECT_TRUE(expected.is_contiguous());
  const at::Tensor channels_last =
      dropout(x.contiguous(at::MemoryFormat::ChannelsLast), 0.4, slots, kDraw);
  EXPECT_TRUE(channels_last.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(channels_last.equal(expected));
  const at::Tensor wide = torch::zeros({2, 6, 5, 9}, at::kDouble);
  const at::Tensor part = wide.slice(3, 1, 9, 2);
  part.copy_(x);
  EXPECT_TRUE(dropout(part, 0.4, slots, kDraw).equal(expected));
  const at::Tensor turned = x.permute({0, 3, 2, 1}).contiguous().permute({0, 3, 2, 1});
  EXPECT_TRUE(dropout(turned, 0.4, slots, kDraw).equal(expected));
  EXPECT_TRUE(dropout(x.view({2, 120}), 0.4, slots, kDraw).equal(expected.view({2, 120})));
}

TEST(Dropout, HasTheSameBitsForAnyNumberOfThreads) {
  const at::Tensor x = random_tensor({.seed = 4, .shape = {3, 33, 17, 19}}).to(at::kFloat);
  const int before = at::get_num_threads();
  std::vector<at::Tensor> results;
  for (const int threads : {1, 4}) {
    at::set_num_threads(threads);
    for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
      results.push_back(dropout(x.contiguous(format), 0.5, slots_from(0, 3), kDraw));
    }
  }
  at::set_num_threads(before);
  for (const at::Tensor& result : results) EXPECT_TRUE(result.equal(results.front()));
}

TEST(Dropout, DrawsAnewForEachSeedStepLayerAndSlot) {
  std::vector<at::Tensor> masks;
  for (const DropoutDraw& draw : {DropoutDraw{.seed = 1, .step = 0, .layer = 0},
                                  DropoutDraw{.seed = 1, .step = 1, .layer = 0},
                                  DropoutDraw{.seed = 1, .step = 0, .layer = 1},
                                  DropoutDraw{.seed = 2, .step = 0, .layer = 0},
                                  DropoutDraw{.seed = 1, .step = std::int64_t{1} << 31, .layer = 0},
                                  DropoutDraw{.seed = 1, .step = 1, .layer = 1}}) {
    const at::Tensor mask = mask_of({4, 64}, draw);
    for (std::int64_t n = 0; n < 4; ++n) masks.push_back(mask[n]);
  }
  for (std::size_t i = 0; i < masks.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) EXPECT_FALSE(masks[i].equal(masks[k])) << i << " " << k;
  }
}

TEST(Dropout, HasTheGradientOfCentralDifferences) {
  const at::Tensor x = random_tensor({.seed = 5, .shape = {2, 3, 4, 3}, .low = -1, .high = 1});
  const at::Tensor weights =
      random_tensor({.seed = 6, .shape = {2, 3, 4, 3}, .low = -1, .high = 1});
  const at::Tensor slots = torch::tensor({4L, 11L});
  // Curved, so that the gradient depends on the mask and on x.
  const auto loss = [&](const at::Tensor& input) {
    const at::Tensor y = dropout(input, 0.4, slots, kDraw);
    return (weights * y * y * y).sum();
  };
  const at::Tensor numeric =
      central_differences([&](const at::Tensor& input) { return loss(input).item<double>(); }, x);
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const at::Tensor input = x.contiguous(format).detach().requires_grad_();
    loss(input).backward();
    EXPECT_LE((input.grad() - numeric).abs().max().item<double>(), 1e-8);
    EXPECT_GT(input.grad().eq(0).sum().item<std::int64_t>(), 0);
  }
}

TEST(Dropout, GivesAGradientThatCanBeDifferentiated) {
  const at::Tensor x =
      random_tensor({.seed = 7, .shape = {2, 30}, .low = 1, .high = 2}).requires_grad_();
  const at::Tensor y = dropout(x, 0.5, slots_from(0, 2), kDraw);
  const at::Tensor first =
      torch::autograd::grad({(y * y * y).sum()}, {x}, {}, /*retain_graph=*/true,
                            /*create_graph=*/true)[0];
  const at::Tensor second = torch::autograd::grad({first.sum()}, {x})[0];
  // y = 2 m x: (y^3)'' = 6 y (2 m)^2 = 24 y, m being 0 or 1.
  EXPECT_TRUE(second.allclose(24 * y.detach(), 1e-14, 0));
}

TEST(Dropout, Of16BitIsThatOfF32Rounded) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    SCOPED_TRACE(type);
    const at::Tensor x =
        random_tensor({.seed = 8, .shape = {2, 5, 6, 7}, .low = -3, .high = 3}).to(type);
    const at::Tensor slots = slots_from(0, 2), wide = x.to(at::kFloat);
    const at::Tensor y = dropout(x, 0.3, slots, kDraw);
    EXPECT_EQ(y.scalar_type(), type);
    EXPECT_TRUE(y.equal(dropout(wide, 0.3, slots, kDraw).to(type)));
    const at::Tensor narrow = x.detach().requires_grad_();
    dropout(narrow, 0.3, slots, kDraw).sum().backward();
    const at::Tensor scale = torch::tensor({1 / 0.7F}).to(type);
    EXPECT_TRUE(narrow.grad().equal(y.ne(0).to(type) * scale));
  }
}

TEST(Dropout, OfNothingIsTheTensorItself) {
  const at::Tensor x = random_tensor({.seed = 9, .shape = {2, 3}});
  EXPECT_TRUE(dropout(x, 0, slots_from(0, 2), kDraw).is_same(x));
  EXPECT_EQ(dropout(x.slice(0, 0, 0), 0.5, slots_from(0, 0), kDraw).numel(), 0);
}

TEST(Dropout, HidesNoValueThatIsNotFinite) {
  const at::Tensor x = torch::full({1, 64}, std::numeric_limits<double>::quiet_NaN(), at::kDouble);
  EXPECT_TRUE(dropout(x, 0.5, slots_from(0, 1), kDraw).isnan().all().item<bool>());
}

TEST(Dropout, RefusesWhatItsNumbersCannotHold) {
  const at::Tensor x = torch::ones({2, 3}), slots = slots_from(0, 2);
  for (const double p : {-0.1, 1.0, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THROW(dropout(x, p, slots, kDraw), Error) << p;
  }
  for (const DropoutDraw& draw :
       {DropoutDraw{.step = -1}, DropoutDraw{.step = std::int64_t{1} << 32},
        DropoutDraw{.layer = -1}, DropoutDraw{.layer = 65536}}) {
    EXPECT_THROW(dropout(x, 0.5, slots, draw), Error) << draw.step << " " << draw.layer;
  }
  EXPECT_THROW(dropout(x, 0.5, slots_from(0, 3), kDraw), Error);
  EXPECT_THROW(dropout(x, 0.5, slots.to(at::kInt), kDraw), Error);
  EXPECT_THROW(dropout(x.to(at::kInt), 0.5, slots, kDraw), Error);
}

}  // namespace
}  // namespace retina
