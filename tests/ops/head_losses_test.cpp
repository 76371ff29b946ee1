// What holds of every loss; focal_loss_test.cpp and others have each one's formula.
#include "shared/ops/head_losses.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "tests/ops/test_losses.h"
#include "tests/ops/test_tensors.h"

namespace retina {
namespace {

// Of anchors of all kinds, as losses_of() has them; two images.
Tensors loss_inputs(at::ScalarType type, std::int64_t anchors) {
  const auto draw = [](std::uint64_t seed, std::vector<std::int64_t> shape, double low,
                       double high) {
    return random_tensor({.seed = seed, .shape = std::move(shape), .low = low, .high = high});
  };
  const at::ScalarType wide = type == at::kDouble ? at::kDouble : at::kFloat;
  return {draw(1, {2, anchors}, -2, 4).floor().to(at::kLong),
          torch::tensor({2L, 0L, 1L, 1L}),
          torch::tensor({0.7, -1.3}, wide),
          random_boxes({.seed = 2, .count = anchors}).to(wide),
          random_boxes({.seed = 3, .count = 4}).to(wide),
          draw(4, {2, anchors, 3}, -5, 5).to(type),
          draw(5, {2, anchors, 4}, -1, 1).to(type)};
}

TEST(HeadLosses, OfLevelsAreThoseOfAllTheirAnchors) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    const Tensors inputs = loss_inputs(type, 900), whole = losses_of(inputs, {900}),
                  parts = losses_of(inputs, {640, 1, 0, 259});
    for (std::size_t i = 0; i < whole.size(); i += 2) {
      EXPECT_TRUE(parts[i].allclose(whole[i], type == at::kDouble ? 1e-13 : 1e-6)) << type << i;
      EXPECT_TRUE(parts[i + 1].equal(whole[i + 1])) << type << i;
    }
  }
}

TEST(HeadLosses, HaveGradientsOfTheWeightedSums) {
  Tensors inputs = loss_inputs(at::kDouble, 900);
  const at::Tensor weights = inputs[2].view({2, 1, 1});
  const Tensors weighted = losses_of(inputs, {900});
  inputs[2] = torch::ones({2}, at::kDouble);
  const Tensors plain = losses_of(inputs, {900});
  for (std::size_t i = 0; i < plain.size(); i += 2) {
    EXPECT_TRUE(weighted[i].equal(plain[i])) << i;
    EXPECT_TRUE(weighted[i + 1].allclose(plain[i + 1] * weights, 1e-14)) << i;
  }
}

TEST(HeadLosses, In16BitAreThoseOfTheSameValuesInF32) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    Tensors inputs = loss_inputs(type, 900);
    const Tensors ours = losses_of(inputs, {900});
    for (at::Tensor& input : inputs)
      input = input.is_floating_point() ? input.to(at::kFloat) : input;
    const Tensors wide = losses_of(inputs, {900});
    for (std::size_t i = 0; i < ours.size(); ++i) {
      EXPECT_TRUE(ours[i].equal(wide[i].to(ours[i].scalar_type()))) << type << i;
    }
  }
}

TEST(HeadLosses, InF32AreTheRoundedOnesOfF64) {
  Tensors inputs = loss_inputs(at::kFloat, 900);
  const Tensors narrow = losses_of(inputs, {900});
  for (at::Tensor& input : inputs)
    input = input.is_floating_point() ? input.to(at::kDouble) : input;
  const Tensors wide = losses_of(inputs, {900});
  for (std::size_t i = 0; i < wide.size(); ++i) {
    EXPECT_TRUE(narrow[i].to(at::kDouble).allclose(wide[i], i % 2 == 0 ? 1e-6 : 1e-4, 1e-6)) << i;
  }
}

TEST(HeadLosses, HaveTheSameBitsOnAnyNumberOfThreads) {
  const Tensors inputs = loss_inputs(at::kFloat, 30'000);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const Tensors one = losses_of(inputs, {30'000});
  at::set_num_threads(3);
  const Tensors three = losses_of(inputs, {30'000});
  at::set_num_threads(threads);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(one[i].equal(three[i])) << i;
}

}  // namespace
}  // namespace retina
