#include "shared/ops/batch_norm.h"

#include <ATen/Parallel.h>
#include <ATen/ops/batch_norm.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <cstdint>
#include <limits>
#include <ostream>
#include <vector>

#include "shared/base/error.h"
#include "tests/ops/test_tensors.h"

namespace retina {
namespace {

constexpr double kEps = 1e-5;
constexpr double kMomentum = 0.3;
constexpr at::MemoryFormat kLast = at::MemoryFormat::ChannelsLast;

// What follows the norm.
struct Behind {
  bool residual, relu;
  friend std::ostream& operator<<(std::ostream& out, const Behind& b) {
    return out << (b.residual ? "a residual, " : "") << (b.relu ? "a ReLU" : "no ReLU");
  }
};
constexpr Behind kAll[] = {{false, false}, {false, true}, {true, false}, {true, true}};

// All that the operation takes, and dy.
struct Inputs {
  at::Tensor x, weight, bias, running_mean, running_var, residual, dy;

  explicit Inputs(const std::vector<std::int64_t>& shape, const Behind& behind = {true, true}) {
    const std::vector<std::int64_t> channels = {shape[1]};
    x = random_tensor({.seed = 41, .shape = shape, .low = -2, .high = 3});
    dy = random_tensor({.seed = 42, .shape = shape, .low = -1, .high = 1});
    weight = random_tensor({.seed = 43, .shape = channels, .low = -1, .high = 2});
    bias = random_tensor({.seed = 44, .shape = channels, .low = -1, .high = 1});
    running_mean = random_tensor({.seed = 45, .shape = channels, .low = -1, .high = 1});
    running_var = random_tensor({.seed = 46, .shape = channels, .low = 0.5, .high = 2});
    if (behind.residual) {
      residual = random_tensor({.seed = 47, .shape = shape, .low = -1, .high = 1});
    }
  }

  // x, its residual and dy in `type`, the rest as wide as it must be.
  Inputs to(at::ScalarType type) const {
    const at::ScalarType wide = type == at::kDouble ? at::kDouble : at::kFloat;
    Inputs result = *this;
    for (at::Tensor* const one : {&result.x, &result.residual, &result.dy}) {
      if (one->defined()) *one = one->to(type);
    }
    for (at::Tensor* const one :
         {&result.weight, &result.bias, &result.running_mean, &result.running_var}) {
      *one = one->to(wide);
    }
    return result;
  }
  Inputs in(at::MemoryFormat format) const {
    Inputs result = *this;
    for (at::Tensor* const one : {&result.x, &result.residual, &result.dy}) {
      if (one->defined()) *one = one->contiguous(format);
    }
    return result;
  }
  BatchNorm norm(bool relu) const {
    return {.weight = weight,
            .bias = bias,
            .running_mean = running_mean,
            .running_var = running_var,
            .momentum = kMomentum,
            .eps = kEps,
            .residual = residual,
            .relu = relu};
  }
};

using Operation = at::Tensor (*)(const at::Tensor&, const BatchNorm&);

at::Tensor aten_batch_norm_relu(const at::Tensor& x, const BatchNorm& what) {
  at::Tensor y =
      at::batch_norm(x, what.weight, what.bias, what.running_mean, what.running_var,
                     /*training=*/true, what.momentum, what.eps, /*cudnn_enabled=*/false);
  if (what.residual.defined()) y = y + what.residual;
  return what.relu ? y.relu() : y;
}

// y, the running statistics, the gradients of x, weight, bias and, where it is there, the residual.
std::vector<at::Tensor> results_of(Operation operation, const Inputs& inputs, bool relu) {
  Inputs own = inputs;
  std::vector<at::Tensor> leaves;
  for (at::Tensor* const one : {&own.x, &own.weight, &own.bias, &own.residual}) {
    if (!one->defined()) continue;
    *one = one->detach().clone().requires_grad_();
    leaves.push_back(*one);
  }
  own.running_mean = own.running_mean.clone();
  own.running_var = own.running_var.clone();
  const at::Tensor y = operation(own.x, own.norm(relu));
  std::vector<at::Tensor> results = {y.detach(), own.running_mean, own.running_var};
  for (const at::Tensor& gradient : torch::autograd::grad({y}, leaves, {own.dy})) {
    results.push_back(gradient);
  }
  return results;
}

double largest(const at::Tensor& difference) {
  return difference.abs().max().item<double>();
}

void expect_equal(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i])) << i;
}

TEST(BatchNormRelu, EqualsBatchNormAddAndReluWithAllGradients) {
  // One channel; few values of many channels; more than 16 of an uneven number.
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{2, 1, 3, 5}, {2, 70, 1, 1}, {3, 19, 7, 4}, {1, 64, 9, 9}}) {
    for (const Behind& behind : kAll) {
      SCOPED_TRACE(testing::Message() << at::IntArrayRef(shape) << ", " << behind);
      const Inputs inputs(shape, behind);
      const auto expected = results_of(aten_batch_norm_relu, inputs, behind.relu);
      for (const auto format : {at::MemoryFormat::Contiguous, kLast}) {
        const auto found = results_of(batch_norm_relu, inputs.in(format), behind.relu);
        ASSERT_EQ(found.size(), expected.size());
        for (std::size_t i = 0; i < found.size(); ++i) {
          EXPECT_TRUE(found[i].allclose(expected[i], 1e-10, 1e-10))
              << i << ": " << largest(found[i] - expected[i]);
        }
      }
    }
  }
}

TEST(BatchNormRelu, IsInF32AsNearToF64AsBatchNormIs) {
  for (const Behind& behind : kAll) {
    SCOPED_TRACE(behind);
    Inputs inputs = Inputs({4, 24, 30, 31}, behind).to(at::kFloat);
    // Where the last bits decide what the ReLU lets pass, dy is small, so that nothing jumps.
    inputs.dy = inputs.dy * results_of(batch_norm_relu, inputs, false)[0];
    const auto exact = results_of(aten_batch_norm_relu, inputs.to(at::kDouble), behind.relu),
               aten = results_of(aten_batch_norm_relu, inputs, behind.relu),
               found = results_of(batch_norm_relu, inputs, behind.relu);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double magnitude = largest(exact[i]);
      EXPECT_LE(largest(found[i] - exact[i]), 1e-6 * magnitude) << i;
      EXPECT_LE(largest(found[i] - exact[i]), 1.5 * largest(aten[i] - exact[i]) + 1e-7 * magnitude)
          << i;
    }
  }
}

TEST(BatchNormRelu, Of16BitIsThatOfF32Rounded) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    SCOPED_TRACE(type);
    for (const Behind& behind : kAll) {
      SCOPED_TRACE(behind);
      const Inputs inputs = Inputs({2, 16, 6, 7}, behind).to(type);
      const auto found = results_of(batch_norm_relu, inputs, behind.relu);
      auto expected = results_of(batch_norm_relu, inputs.to(at::kFloat), behind.relu);
      for (std::size_t i = 0; i < found.size(); ++i) {
        const bool is_stored = i == 0 || i == 3 || i == 6;  // y, dx and the residual's gradient
        EXPECT_EQ(found[i].scalar_type(), is_stored ? type : at::kFloat) << i;
        expected[i] = expected[i].to(found[i].scalar_type());
      }
      expect_equal(found, expected);
      const auto aten = results_of(aten_batch_norm_relu, inputs, behind.relu);
      EXPECT_LE(largest(found[0].to(at::kFloat) - aten[0].to(at::kFloat)), 0.04);
    }
  }
}

TEST(BatchNormRelu, HasTheGradientsOfCentralDifferences) {
  for (const Behind& behind : kAll) {
    SCOPED_TRACE(behind);
    const Inputs inputs({2, 3, 3, 2}, behind);
    const auto found = results_of(batch_norm_relu, inputs, behind.relu);
    const auto expect_gradient = [&](at::Tensor Inputs::*input, const at::Tensor& gradient) {
      const auto loss = [&](const at::Tensor& value) {
        Inputs changed = inputs;
        changed.*input = value;
        return (inputs.dy * results_of(batch_norm_relu, changed, behind.relu)[0])
            .sum()
            .item<double>();
      };
      EXPECT_LE(largest(gradient - central_differences(loss, inputs.*input)), 1e-7);
    };
    expect_gradient(&Inputs::x, found[3]);
    expect_gradient(&Inputs::weight, found[4]);
    expect_gradient(&Inputs::bias, found[5]);
    if (behind.residual) expect_gradient(&Inputs::residual, found[6]);
  }
}

TEST(BatchNormRelu, LosesNothingToALargeMean) {
  Inputs inputs = Inputs({2, 16, 30, 31}).to(at::kFloat);
  inputs.x = inputs.x + 1000;
  const auto exact = results_of(aten_batch_norm_relu, inputs.to(at::kDouble), true),
             found = results_of(batch_norm_relu, inputs, true);
  // Rounding the mean alone costs 3e-5 / std times the weight.
  EXPECT_LE(largest(found[0] - exact[0]), 6e-5);
  EXPECT_LE(largest(found[2] - exact[2]), 1e-6);  // the running variance
}

TEST(BatchNormRelu, DoesNotDependOnTheMemoryAndKeepsItsFormat) {
  const Inputs inputs({2, 6, 5, 4});
  const auto expected = results_of(batch_norm_relu, inputs, true);
  for (const std::size_t i : {0, 3, 6}) EXPECT_TRUE(expected[i].is_contiguous()) << i;
  const auto last = results_of(batch_norm_relu, inputs.in(kLast), true);
  for (const std::size_t i : {0, 3, 6}) EXPECT_TRUE(last[i].is_contiguous(kLast)) << i;
  expect_equal(last, expected);
  Inputs part = inputs;
  part.x = torch::zeros({2, 6, 5, 9}, at::kDouble).slice(3, 1, 9, 2).copy_(inputs.x);
  part.residual = inputs.residual.permute({0, 3, 2, 1}).contiguous().permute({0, 3, 2, 1});
  part.dy = inputs.dy.contiguous(kLast);
  expect_equal(results_of(batch_norm_relu, part, true), expected);
}

TEST(BatchNormRelu, HasTheSameBitsForAnyNumberOfThreads) {
  const Inputs inputs = Inputs({3, 70, 17, 19}).to(at::kFloat);
  const int before = at::get_num_threads();
  std::vector<std::vector<at::Tensor>> results;
  for (const int threads : {1, 2, 4}) {
    at::set_num_threads(threads);
    results.push_back(results_of(batch_norm_relu, inputs, true));
  }
  at::set_num_threads(before);
  for (const auto& result : results) expect_equal(result, results.front());
}

TEST(BatchNormRelu, GivesGradientsToWhatWantsThem) {
  const Inputs inputs({2, 6, 5, 4});
  const auto all = results_of(batch_norm_relu, inputs, true);
  for (const bool residual_wants : {true, false}) {
    const at::Tensor leaf = (residual_wants ? inputs.residual : inputs.x).detach().clone();
    leaf.requires_grad_();
    BatchNorm norm = inputs.norm(true);
    if (residual_wants) norm.residual = leaf;
    const at::Tensor y = batch_norm_relu(residual_wants ? inputs.x : leaf, norm);
    const at::Tensor gradient = torch::autograd::grad({y}, {leaf}, {inputs.dy})[0];
    EXPECT_TRUE(gradient.equal(all[residual_wants ? 6 : 3])) << residual_wants;
  }
}

TEST(BatchNormRelu, HidesNoValueThatIsNotFinite) {
  for (const double value :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const Inputs inputs({2, 6, 3, 3});
    inputs.x[1][4][2][0] = value;
    const at::Tensor y = batch_norm_relu(inputs.x, inputs.norm(true));
    EXPECT_EQ(y.isnan().sum().item<std::int64_t>(), 2 * 9) << value;
    EXPECT_TRUE(y.slice(1, 4, 5).isnan().all().item<bool>()) << value;
    const Inputs other({2, 6, 3, 3});
    other.residual[0][1][2][2] = std::numeric_limits<double>::quiet_NaN();
    EXPECT_TRUE(batch_norm_relu(other.x, other.norm(true))[0][1][2][2].isnan().item<bool>());
  }
}

TEST(BatchNormRelu, OfASingleValueIsItsBiasAndMovesTheVarianceTowardsZero) {
  const Inputs inputs({1, 5, 1, 1}, {false, false});
  const auto found = results_of(batch_norm_relu, inputs, false);
  EXPECT_TRUE(found[0].flatten().allclose(inputs.bias, 1e-12, 1e-12));
  EXPECT_TRUE(found[2].allclose((1 - kMomentum) * inputs.running_var, 1e-12, 1e-12));
  EXPECT_TRUE(found[3].eq(0).all().item<bool>());
}

TEST(BatchNormRelu, OfNothingIsNothingWithGradientsOfZero) {
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{0, 6, 3, 3}, std::vector<std::int64_t>{2, 6, 0, 3}}) {
    const Inputs inputs(shape);
    const auto found = results_of(batch_norm_relu, inputs, true);
    for (const std::size_t i : {0, 3, 6}) EXPECT_EQ(found[i].sizes(), at::IntArrayRef(shape));
    EXPECT_TRUE(found[1].equal(inputs.running_mean) && found[2].equal(inputs.running_var));
    EXPECT_TRUE(found[4].eq(0).all().item<bool>() && found[5].eq(0).all().item<bool>());
  }
}

TEST(BatchNormRelu, RefusesToDifferentiateItsGradient) {
  const Inputs inputs({1, 6, 2, 2});
  const at::Tensor x = inputs.x.requires_grad_();
  const at::Tensor y = batch_norm_relu(x, inputs.norm(true));
  EXPECT_THROW(torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true,
                                     /*create_graph=*/true),
               Error);
}

TEST(BatchNormRelu, RefusesWhatDoesNotFit) {
  const Inputs inputs({1, 6, 2, 2});
  const auto expect_refused = [&](const at::Tensor& x, const auto& change) {
    BatchNorm norm = inputs.norm(true);
    change(norm);
    EXPECT_THROW(batch_norm_relu(x, norm), Error);
  };
  const auto as_it_is = [](const BatchNorm&) {};
  expect_refused(inputs.x[0], as_it_is);
  expect_refused(inputs.x.to(at::kFloat), as_it_is);
  expect_refused(inputs.x.to(at::kHalf), as_it_is);
  for (at::Tensor BatchNorm::*const tensor :
       {&BatchNorm::weight, &BatchNorm::bias, &BatchNorm::running_mean, &BatchNorm::running_var}) {
    expect_refused(inputs.x, [&](BatchNorm& norm) { norm.*tensor = (norm.*tensor).slice(0, 1); });
    expect_refused(inputs.x,
                   [&](BatchNorm& norm) { norm.*tensor = (norm.*tensor).to(at::kFloat); });
  }
  expect_refused(inputs.x, [&](BatchNorm& norm) { norm.residual = norm.residual.slice(2, 1); });
  expect_refused(inputs.x, [&](BatchNorm& norm) { norm.residual = norm.residual.to(at::kFloat); });
  expect_refused(inputs.x, [](BatchNorm& norm) { norm.eps = -1; });
  expect_refused(inputs.x, [](BatchNorm& norm) { norm.momentum = 1.5; });
}

}  // namespace
}  // namespace retina
