#include <algorithm>
#include <limits>

#include "shared/ops/batch_norm_formulas.h"
#include "tests/gpu/emulation/kernel_test.h"
#include "tests/gpu/emulation/reference.h"

namespace retina::emulation {
namespace {

using kernels::BatchNorm;
using kernels::BatchNormBackward;
using kernels::BatchNormForward;
using kernels::Bfloat16;
using kernels::Float16;
using kernels::Loaded;

class EmulatedBatchNorm : public KernelTest {};

constexpr double kEps = 1e-5, kMomentum = 0.1;

struct Sizes {
  std::int64_t row_count, channel_count;
  bool has_residual = true, relu = true;
  std::size_t misalignment = 0;

  std::int64_t value_count() const { return row_count * channel_count; }
  std::int64_t chunk_rows() const {
    BatchNorm<float> norm = {};
    norm.row_count = row_count;
    norm.channel_count = channel_count;
    return norm.chunk_rows();
  }
};

// Arrays for both directions; the inputs x, residual and dy are for the caller to fill.
template <class Stored>
struct Case {
  using T = Loaded<Stored>;
  const Sizes sizes;
  DeviceArray<Stored> values, residual, out, output_gradients, residual_gradient, gradient;
  DeviceArray<T> weight, bias, running_mean, running_var, means, inverse_stds, coefficients,
      weight_gradient, bias_gradient;
  DeviceArray<double> partials;

  explicit Case(const Sizes& s)
      : sizes(s),
        values(Content::kInput, Zeros{static_cast<std::size_t>(s.value_count())}, s.misalignment),
        residual(Content::kInput, Zeros{values.size()}, s.misalignment),
        out(values.size(), s.misalignment),
        output_gradients(Content::kInput, Zeros{values.size()}, s.misalignment),
        residual_gradient(values.size(), s.misalignment),
        gradient(values.size(), s.misalignment),
        weight(Content::kInput, Draws(31).values<T>(s.channel_count, -1, 2)),
        bias(Content::kInput, Draws(32).values<T>(s.channel_count, -1, 1)),
        running_mean(Content::kState, Draws(33).values<T>(s.channel_count, -1, 1)),
        running_var(Content::kState, Draws(34).values<T>(s.channel_count, 0.5, 2)),
        means(weight.size()),
        inverse_stds(weight.size()),
        coefficients(2 * weight.size()),
        weight_gradient(weight.size()),
        bias_gradient(weight.size()),
        partials(static_cast<std::size_t>(norm().chunk_count() * s.channel_count * 2)) {}

  bool has_output() const { return sizes.has_residual && sizes.relu; }
  BatchNorm<Stored> norm() const {
    return {.values = values.data(),
            .weight = weight.data(),
            .bias = bias.data(),
            .row_count = sizes.row_count,
            .channel_count = sizes.channel_count,
            .relu = sizes.relu,
            .partials = nullptr};
  }
  BatchNormForward<Stored> forward() const {
    BatchNormForward<Stored> f = {.norm = norm(),
                                  .residual = sizes.has_residual ? residual.data() : nullptr,
                                  .eps = kEps,
                                  .momentum = kMomentum,
                                  .means = means.data(),
                                  .inverse_stds = inverse_stds.data(),
                                  .running_mean = running_mean.data(),
                                  .running_var = running_var.data(),
                                  .out = out.data()};
    f.norm.partials = partials.data();
    return f;
  }
  BatchNormBackward<Stored> backward() const {
    BatchNormBackward<Stored> b = {
        .norm = norm(),
        .means = means.data(),
        .inverse_stds = inverse_stds.data(),
        .output_gradients = output_gradients.data(),
        .output = has_output() ? out.data() : nullptr,
        .residual_gradient = has_output() ? residual_gradient.data() : nullptr,
        .coefficients = coefficients.data(),
        .weight_gradient = weight_gradient.data(),
        .bias_gradient = bias_gradient.data(),
        .gradient = gradient.data()};
    b.norm.partials = partials.data();
    return b;
  }
  void run_forward() const {
    EXPECT_STREQ(kernels::batch_norm_forward_cuda(forward(), nullptr), nullptr);
  }
  void run_backward() const {
    EXPECT_STREQ(kernels::batch_norm_backward_cuda(backward(), nullptr), nullptr);
  }
};

template <class Stored>
void expect_close_to_cpu(const Sizes& sizes) {
  SCOPED_TRACE(testing::Message() << sizes.row_count << " rows of " << sizes.channel_count
                                  << " channels, residual " << sizes.has_residual << ", ReLU "
                                  << sizes.relu << ", misaligned " << sizes.misalignment << ", "
                                  << sizeof(Stored) << " bytes");
  using T = Loaded<Stored>;
  const Case<Stored> c(sizes);
  Draws draws(35);
  copy_to_end(draws.values<Stored>(sizes.value_count(), -2, 3), c.values);
  copy_to_end(draws.values<Stored>(sizes.value_count(), -1, 1), c.residual);
  std::vector<T> running_mean = c.running_mean.values(), running_var = c.running_var.values();
  c.run_forward();
  std::vector<Stored> out(c.out.size());
  BatchNormForward<Stored> f = c.forward();
  f.running_mean = running_mean.data();
  f.running_var = running_var.data();
  f.out = out.data();
  compute(f);
  const bool is_double = sizeof(Stored) == 8;
  const Tolerance value = is_double             ? Tolerance{1e-10, 1e-10}
                          : sizeof(Stored) == 4 ? Tolerance{1e-5, 2e-5}
                                                : Tolerance{8e-3, 2e-5},
                  sum = is_double ? Tolerance{1e-10, 1e-10} : Tolerance{1e-5, 1e-3},
                  statistic = is_double ? Tolerance{1e-12, 1e-12} : Tolerance{1e-5, 1e-6};
  expect_close(c.out, out, value, "output");
  expect_close(c.running_mean, running_mean, statistic, "running mean");
  expect_close(c.running_var, running_var, statistic, "running variance");
  // Where the last bits decide what the ReLU lets pass, dy is small, so that nothing jumps.
  std::vector<Stored> dy = draws.values<Stored>(sizes.value_count(), -1, 1), before(out.size());
  f.norm.relu = false;
  f.out = before.data();
  compute(f);
  for (std::size_t i = 0; i < dy.size(); ++i) {
    kernels::store(kernels::loaded(dy[i]) * kernels::loaded(before[i]), &dy[i]);
  }
  copy_to_end(dy, c.output_gradients);
  c.run_backward();
  std::vector<Stored> gradient(out.size()), residual_gradient(out.size());
  std::vector<T> weight_gradient(c.weight.size()), bias_gradient(c.weight.size());
  BatchNormBackward<Stored> b = c.backward();
  b.gradient = gradient.data();
  b.residual_gradient = residual_gradient.data();
  b.weight_gradient = weight_gradient.data();
  b.bias_gradient = bias_gradient.data();
  compute(b, f.residual, kEps);
  expect_close(c.gradient, gradient, value, "gradient");
  expect_close(c.weight_gradient, weight_gradient, sum, "weight's gradient");
  expect_close(c.bias_gradient, bias_gradient, sum, "bias' gradient");
  if (c.has_output()) {
    expect_close(c.residual_gradient, residual_gradient, value, "residual's gradient");
  }
}

template <class Stored>
void expect_close_to_cpu_for_all() {
  // Single values; one column; less than a tile of columns; an uneven number.
  for (const std::int64_t channel_count : {1, 3, 8, 12, 64, 200}) {
    const std::int64_t chunk = Sizes{1, channel_count}.chunk_rows();
    // Not two, which may be so near that f32 has no digits of their gradient.
    for (const std::int64_t row_count :
         {std::int64_t{1}, std::int64_t{3}, std::int64_t{37}, chunk, 2 * chunk + 5}) {
      expect_close_to_cpu<Stored>({row_count, channel_count});
    }
    for (const bool has_residual : {false, true}) {
      for (const bool relu : {false, true}) {
        expect_close_to_cpu<Stored>({39, channel_count, has_residual, relu});
      }
      expect_close_to_cpu<Stored>({19, channel_count, has_residual, true, /*misalignment=*/1});
    }
  }
  // Many tiles.
  for (const std::int64_t row_count : {1, 5, 67}) expect_close_to_cpu<Stored>({row_count, 2048});
  expect_close_to_cpu<Stored>({3, 2048, false, true, /*misalignment=*/1});
}

TEST_F(EmulatedBatchNorm, IsTheCpusInF32) {
  expect_close_to_cpu_for_all<float>();
}
TEST_F(EmulatedBatchNorm, IsTheCpusInF64) {
  expect_close_to_cpu_for_all<double>();
}
TEST_F(EmulatedBatchNorm, IsTheCpusInBf16) {
  expect_close_to_cpu_for_all<Bfloat16>();
}
TEST_F(EmulatedBatchNorm, IsTheCpusInF16) {
  expect_close_to_cpu_for_all<Float16>();
}

TEST_F(EmulatedBatchNorm, NeitherReadsNorWritesWhereNothingIs) {
  const Case<float> c({0, 64});
  c.run_forward();
  c.run_backward();
#ifdef RETINA_WITH_ACCESS_CHECKS  // which know what was written
  EXPECT_EQ(c.means.unwritten_count(), c.means.size());
#endif
}

TEST_F(EmulatedBatchNorm, LeavesAnInputsGradientThatNobodyWants) {
  const Case<Bfloat16> c({50, 64});
  c.run_forward();
  BatchNormBackward<Bfloat16> b = c.backward();
  b.gradient = nullptr;
  EXPECT_STREQ(kernels::batch_norm_backward_cuda(b, nullptr), nullptr);
  EXPECT_EQ(c.weight_gradient.unwritten_count(), 0U);
#ifdef RETINA_WITH_ACCESS_CHECKS
  EXPECT_EQ(c.gradient.unwritten_count(), c.gradient.size());
#endif
}

TEST_F(EmulatedBatchNorm, HidesNoNan) {
  const Sizes sizes = {300, 64};
  const Case<float> c(sizes);
  std::vector<float> x = Draws(36).values<float>(sizes.value_count(), -2, 3);
  x[static_cast<std::size_t>(290 * sizes.channel_count + 5)] =
      std::numeric_limits<float>::quiet_NaN();
  copy_to_end(x, c.values);
  copy_to_end(Draws(37).values<float>(sizes.value_count(), -1, 1), c.output_gradients);
  c.run_forward();
  c.run_backward();
  for (std::int64_t i = 0; i < sizes.value_count(); ++i) {
    const auto place = static_cast<std::size_t>(i);
    const bool is_its_channel = i % sizes.channel_count == 5;
    ASSERT_EQ(std::isnan(c.out[place]), is_its_channel) << i;
    ASSERT_EQ(std::isnan(c.gradient[place]), is_its_channel) << i;
  }
}

TEST_F(EmulatedBatchNorm, LosesNothingToALargeMeanOrAFarValue) {
  for (const bool is_far : {false, true}) {
    const Sizes sizes = {600, 64, false, false};
    const Case<float> c(sizes);
    std::vector<float> x = Draws(38).values<float>(sizes.value_count(), 998, 1003), out(x.size());
    if (is_far) {
      for (std::size_t i = 0; i < 64; ++i) x[i] = -1e4F;  // the first row
    }
    copy_to_end(x, c.values);
    c.run_forward();
    std::vector<float> running_mean(64), running_var(64);
    BatchNormForward<float> f = c.forward();
    f.running_mean = running_mean.data();
    f.running_var = running_var.data();
    f.out = out.data();
    compute(f);
    expect_close(c.out, out, {1e-5, 6e-5}, "output");
  }
}

// The last rows of a batch of more than 2^31 values, of which only their chunk's blocks run.
template <class Stored>
void expect_the_last_rows(std::int64_t channel_count, unsigned tile_count) {
  constexpr std::int64_t kTail = 40;
  Sizes sizes = {(std::int64_t{1} << 31) / channel_count + 1, channel_count};
  const std::int64_t chunk = sizes.chunk_rows();
  sizes.row_count = (sizes.row_count + chunk - 1) / chunk * chunk + kTail;
  const Case<Stored> c(sizes);
  Draws draws(39);
  const std::int64_t count = kTail * channel_count;
  const std::vector<Stored> x = draws.values<Stored>(count, -2, 3),
                            residual = draws.values<Stored>(count, -1, 1),
                            dy = draws.values<Stored>(count, -1, 1);
  copy_to_end(x, c.values);
  copy_to_end(residual, c.residual);
  copy_to_end(dy, c.output_gradients);
  // Those of the blocks that do not run.
  std::fill_n(c.partials.data(), c.partials.size(), 0.0);
  // Half of the kernels take the rows from the last one on.
  run_only([tile_count](const uint3& block, const dim3& grid) {
    return grid.x < 1000 || block.x < tile_count || block.x + tile_count >= grid.x;
  });
  c.run_forward();
  c.run_backward();
  run_only(nullptr);
  const auto rows = static_cast<double>(sizes.row_count);
  std::vector<Stored> out(x.size()), passed(x.size()), gradient(x.size());
  for (std::int64_t channel = 0; channel < channel_count; ++channel) {
    const auto of = static_cast<std::size_t>(channel);
    const auto norm = batch_norm_channel(c.norm(), channel, c.means[of], c.inverse_stds[of]);
    double sum = 0, squares = 0, gradient_sum = 0;
    for (std::size_t i = of; i < x.size(); i += c.weight.size()) {
      const auto value = kernels::loaded(x[i]);
      sum += static_cast<double>(value);
      squares += static_cast<double>(value) * static_cast<double>(value);
      kernels::store(norm.output(value, kernels::loaded(residual[i]), true), &out[i]);
      const auto of_value = kernels::through_relu(kernels::loaded(out[i]), kernels::loaded(dy[i]));
      gradient_sum += static_cast<double>(of_value);
      kernels::store(of_value, &passed[i]);
      const kernels::BatchNormGradient<Loaded<Stored>> g = {c.coefficients[2 * of],
                                                            c.coefficients[2 * of + 1]};
      kernels::store(g.input_gradient(norm, value, of_value), &gradient[i]);
    }
    const double inverse_std = 1 / std::sqrt(squares / rows - sum / rows * sum / rows + kEps);
    ASSERT_NEAR(static_cast<double>(c.means[of]) * rows, sum, 1e-3) << channel;
    ASSERT_NEAR(static_cast<double>(c.inverse_stds[of]), inverse_std, 1e-5 * inverse_std)
        << channel;
    ASSERT_NEAR(static_cast<double>(c.bias_gradient[of]), gradient_sum, 1e-4) << channel;
  }
  expect_at_end(c.out, out, "output");
  expect_at_end(c.residual_gradient, passed, "residual's gradient");
  expect_at_end(c.gradient, gradient, "gradient");
}

TEST_F(EmulatedBatchNorm, CountsBeyond31Bits) {
  expect_the_last_rows<float>(64, 1);
  expect_the_last_rows<Bfloat16>(512, 2);
  expect_the_last_rows<float>(63, 2);
}

}  // namespace
}  // namespace retina::emulation
