#include <algorithm>
#include <functional>

#include "tests/gpu/emulation/kernel_test.h"
#include "tests/gpu/emulation/reference.h"

namespace retina::emulation {
namespace {

using kernels::Bfloat16;
using kernels::Float16;
using kernels::GroupNorm;
using kernels::GroupNormBackward;
using kernels::GroupNormForward;
using kernels::Loaded;

class EmulatedGroupNorm : public KernelTest {};

constexpr double kEps = 1e-5;

struct Sizes {
  std::int64_t image_count, pixel_count, channel_count, group_count;
  std::size_t misalignment = 0;

  std::int64_t values_per_image() const { return pixel_count * channel_count; }
};

std::size_t partial_count(const Sizes& s) {
  const std::int64_t chunk_px = kernels::group_norm_chunk_px(s.pixel_count);
  return static_cast<std::size_t>(s.image_count * ((s.pixel_count + chunk_px - 1) / chunk_px) *
                                  s.channel_count * 2);
}

// Arrays for both directions; the inputs x and dy are for the caller to fill.
template <class Stored>
struct Case {
  using T = Loaded<Stored>;
  const Sizes sizes;
  DeviceArray<Stored> values, out, output_gradients, gradient;
  DeviceArray<T> weight, bias, means, inverse_stds, coefficients, weight_gradient, bias_gradient;
  DeviceArray<double> partials, channel_sums;

  explicit Case(const Sizes& s)
      : sizes(s),
        values(Content::kInput,
               Zeros{static_cast<std::size_t>(s.image_count * s.values_per_image())},
               s.misalignment),
        out(values.size(), s.misalignment),
        output_gradients(Content::kInput, Zeros{values.size()}, s.misalignment),
        gradient(values.size(), s.misalignment),
        weight(Content::kInput, Draws(18).values<T>(s.channel_count, -1, 2)),
        bias(Content::kInput, Draws(19).values<T>(s.channel_count, -1, 1)),
        means(static_cast<std::size_t>(s.image_count * s.group_count)),
        inverse_stds(means.size()),
        coefficients(2 * means.size()),
        weight_gradient(weight.size()),
        bias_gradient(weight.size()),
        partials(partial_count(s)),
        channel_sums(static_cast<std::size_t>(s.image_count * s.channel_count * 2)) {}

  GroupNorm<Stored> norm() const {
    return {.values = values.data(),
            .weight = weight.data(),
            .bias = bias.data(),
            .image_count = sizes.image_count,
            .pixel_count = sizes.pixel_count,
            .channel_count = sizes.channel_count,
            .group_count = sizes.group_count,
            .partials = partials.data()};
  }
  GroupNormForward<Stored> forward() const {
    return {.norm = norm(),
            .eps = kEps,
            .means = means.data(),
            .inverse_stds = inverse_stds.data(),
            .out = out.data()};
  }
  GroupNormBackward<Stored> backward() const {
    return {.norm = norm(),
            .means = means.data(),
            .inverse_stds = inverse_stds.data(),
            .output_gradients = output_gradients.data(),
            .channel_sums = channel_sums.data(),
            .coefficients = coefficients.data(),
            .weight_gradient = weight_gradient.data(),
            .bias_gradient = bias_gradient.data(),
            .gradient = gradient.data()};
  }
  void run() const {
    EXPECT_STREQ(kernels::group_norm_forward_cuda(forward(), nullptr), nullptr);
    EXPECT_STREQ(kernels::group_norm_backward_cuda(backward(), nullptr), nullptr);
  }
};

template <class Stored>
void expect_close_to_cpu(const Sizes& sizes) {
  SCOPED_TRACE(testing::Message() << sizes.image_count << " images of " << sizes.pixel_count
                                  << " pixels, " << sizes.channel_count << " channels in "
                                  << sizes.group_count << " groups, misaligned "
                                  << sizes.misalignment << ", " << sizeof(Stored) << " bytes");
  using T = Loaded<Stored>;
  const Case<Stored> c(sizes);
  Draws draws(16);
  copy_to_end(draws.values<Stored>(static_cast<std::int64_t>(c.values.size()), -2, 3), c.values);
  std::vector<Stored> dy = draws.values<Stored>(static_cast<std::int64_t>(c.values.size()), -1, 1);
  EXPECT_STREQ(kernels::group_norm_forward_cuda(c.forward(), nullptr), nullptr);
  std::vector<Stored> out(c.out.size()), gradient(c.out.size());
  GroupNormForward<Stored> f = c.forward();
  f.out = out.data();
  compute(f);
  const bool is_double = sizeof(Stored) == 8;
  const Tolerance value = is_double             ? Tolerance{1e-11, 1e-11}
                          : sizeof(Stored) == 4 ? Tolerance{1e-5, 2e-5}
                                                : Tolerance{8e-3, 2e-5},
                  sum = is_double ? Tolerance{1e-11, 1e-11} : Tolerance{1e-5, 1e-3};
  expect_close(c.out, out, value, "output");
  // Where the last bits of the value before the ReLU decide what passes, dy is small, so that
  // nothing jumps.
  std::vector<T> weight(c.weight.size()), bias(c.weight.size());
  std::transform(f.norm.weight, f.norm.weight + weight.size(), weight.begin(), std::negate());
  std::transform(f.norm.bias, f.norm.bias + bias.size(), bias.begin(), std::negate());
  std::vector<Stored> negative(out.size());
  f.norm.weight = weight.data();
  f.norm.bias = bias.data();
  f.out = negative.data();
  compute(f);
  for (std::size_t i = 0; i < dy.size(); ++i) {
    const T before = kernels::loaded(out[i]) - kernels::loaded(negative[i]);
    kernels::store(kernels::loaded(dy[i]) * before, &dy[i]);
  }
  copy_to_end(dy, c.output_gradients);
  EXPECT_STREQ(kernels::group_norm_backward_cuda(c.backward(), nullptr), nullptr);
  std::vector<T> weight_gradient(c.weight.size()), bias_gradient(c.weight.size());
  GroupNormBackward<Stored> b = c.backward();
  b.gradient = gradient.data();
  b.weight_gradient = weight_gradient.data();
  b.bias_gradient = bias_gradient.data();
  if (gradient.empty()) return;  // then no kernel writes the parameters' gradients
  compute(b, kEps);
  expect_close(c.gradient, gradient, value, "gradient");
  expect_close(c.weight_gradient, weight_gradient, sum, "weight's gradient");
  expect_close(c.bias_gradient, bias_gradient, sum, "bias' gradient");
}

TEST_F(EmulatedGroupNorm, IsTheCpusForAnySizes) {
  // Packs of 4 and more channels; single values; more columns than threads; one channel a group.
  for (const auto& [channel_count, group_count] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{
           {256, 32}, {64, 32}, {64, 2}, {6, 2}, {1536, 3}, {72, 3}, {5, 5}}) {
    for (const std::int64_t pixel_count : {0, 1, 31, 32, 33, 63, 129}) {
      expect_close_to_cpu<float>({2, pixel_count, channel_count, group_count});
    }
    expect_close_to_cpu<float>({0, 7, channel_count, group_count});
    expect_close_to_cpu<double>({3, 65, channel_count, group_count});
    expect_close_to_cpu<Bfloat16>({3, 65, channel_count, group_count});
    expect_close_to_cpu<Float16>({3, 65, channel_count, group_count});
    expect_close_to_cpu<Bfloat16>({1, 33, channel_count, group_count, 1});
    expect_close_to_cpu<Float16>({1, 33, channel_count, group_count, 1});
    expect_close_to_cpu<float>({1, 33, channel_count, group_count, 1});
  }
  // Chunks of 128 pixels.
  expect_close_to_cpu<Bfloat16>({1, 8300, 16, 2});
  expect_close_to_cpu<Float16>({1, 8300, 16, 2});
  expect_close_to_cpu<float>({1, 8300, 3, 1});
}

template <class Stored>
void expect_last_image_as_alone(const Sizes& one) {
  Sizes many = one;
  many.image_count = images_beyond_31_bits(one.values_per_image());
  const Case<Stored> alone(one), batch(many);
  Draws draws(16);
  const auto x = draws.values<Stored>(one.values_per_image(), -2, 3),
             dy = draws.values<Stored>(one.values_per_image(), -1, 1);
  for (const Case<Stored>* const c : {&alone, &batch}) {
    copy_to_end(x, c->values);
    copy_to_end(dy, c->output_gradients);
  }
  alone.run();
  // Half of the kernels take the images from the last one on.
  run_only([](const uint3& block, const dim3& grid) {
    return grid.y > 1 ? block.y == 0 || block.y + 1 == grid.y : block.x + 1 == grid.x;
  });
  batch.run();
  run_only(nullptr);
  expect_at_end(batch.out, alone.out.values(), "output");
  expect_at_end(batch.gradient, alone.gradient.values(), "gradient");
}

TEST_F(EmulatedGroupNorm, CountsBeyond31Bits) {
  expect_last_image_as_alone<float>({1, 130, 256, 32});
  expect_last_image_as_alone<Bfloat16>({1, 130, 256, 32});
  expect_last_image_as_alone<float>({1, 5500, 6, 2});
}

}  // namespace
}  // namespace retina::emulation
