#include <algorithm>
#include <limits>

#include "tests/gpu/emulation/kernel_test.h"
#include "tests/gpu/emulation/reference.h"

namespace retina::emulation {
namespace {

using kernels::Bfloat16;
using kernels::BiasRelu;
using kernels::BiasReluBackward;
using kernels::Float16;
using kernels::Loaded;

class EmulatedBiasRelu : public KernelTest {};

struct Case {
  std::int64_t pixel_count, channel_count;
  bool channels_last = true, has_bias = true, has_residual = true, relu = true;
  std::size_t misalignment = 0;
};

template <class Stored>
void expect_same(const Case& c) {
  SCOPED_TRACE(testing::Message() << c.pixel_count << " pixels of " << c.channel_count
                                  << " channels, last " << c.channels_last << ", bias "
                                  << c.has_bias << ", residual " << c.has_residual << ", ReLU "
                                  << c.relu << ", misaligned " << c.misalignment);
  Draws draws(12);
  const std::int64_t count = c.pixel_count * c.channel_count;
  std::vector<Stored> expected = draws.values<Stored>(count, -2, 2);
  const DeviceArray<Stored> found(Content::kState, expected, c.misalignment),
      residual(Content::kInput, draws.values<Stored>(count, -2, 2), c.misalignment);
  const DeviceArray<Loaded<Stored>> bias(Content::kInput,
                                         draws.values<Loaded<Stored>>(c.channel_count, -1, 1));
  BiasRelu<Stored> b = {.values = found.data(),
                        .bias = c.has_bias ? bias.data() : nullptr,
                        .residual = c.has_residual ? residual.data() : nullptr,
                        .count = count,
                        .channel_count = c.channel_count,
                        .channel_stride = c.channels_last ? 1 : c.pixel_count,
                        .relu = c.relu};
  EXPECT_STREQ(kernels::bias_relu_cuda(b, nullptr), nullptr);
  b.values = expected.data();
  compute(b);
  expect_same_bits(found, expected, "value");
}

template <class Stored>
void expect_same_for_all() {
  // 3, 36: no whole packs of 16 bytes. Packs: one block of threads, and a value less and more.
  constexpr std::int64_t kPack = 16 / sizeof(Stored);
  for (const std::int64_t channel_count : {kPack, 2 * kPack, std::int64_t{3}, std::int64_t{36}}) {
    for (const std::int64_t pixel_count : {0, 1, 85, 127, 128, 129, 255, 256, 257}) {
      for (const bool channels_last : {true, false}) {
        if (pixel_count == 0 && !channels_last) continue;
        expect_same<Stored>({pixel_count, channel_count, channels_last});
      }
    }
    for (int options = 0; options < 8; ++options) {
      expect_same<Stored>({.pixel_count = 37,
                           .channel_count = channel_count,
                           .has_bias = (options & 1) != 0,
                           .has_residual = (options & 2) != 0,
                           .relu = (options & 4) != 0});
    }
    for (const bool has_residual : {true, false}) {
      expect_same<Stored>({.pixel_count = 37,
                           .channel_count = channel_count,
                           .has_residual = has_residual,
                           .misalignment = 1});
    }
  }
}

TEST_F(EmulatedBiasRelu, HasTheBitsOfTheCpu) {
  expect_same_for_all<float>();
  expect_same_for_all<double>();
  expect_same_for_all<Bfloat16>();
  expect_same_for_all<Float16>();
}

// The last blocks of an array of more than 2^31 values, with and without packs.
template <class Stored>
void expect_same_at_the_end(std::int64_t channel_count) {
  const std::int64_t tail = 3 * channel_count;
  const std::int64_t count = ((std::int64_t{1} << 31) / channel_count + 9) * channel_count;
  Draws draws(13);
  std::vector<Stored> expected = draws.values<Stored>(tail, -2, 2);
  const std::vector<Stored> added = draws.values<Stored>(tail, -2, 2);
  const DeviceArray<Stored> found(Content::kState, Zeros{static_cast<std::size_t>(count)}),
      residual(Content::kInput, Zeros{found.size()});
  copy_to_end(expected, found);
  copy_to_end(added, residual);
  const DeviceArray<Loaded<Stored>> bias(Content::kInput,
                                         draws.values<Loaded<Stored>>(channel_count, -1, 1));
  BiasRelu<Stored> b = {.values = found.data(),
                        .bias = bias.data(),
                        .residual = residual.data(),
                        .count = count,
                        .channel_count = channel_count,
                        .channel_stride = 1,
                        .relu = true};
  run_only([](const uint3& block, const dim3& grid) { return block.x + 3 >= grid.x; });
  EXPECT_STREQ(kernels::bias_relu_cuda(b, nullptr), nullptr);
  b.values = expected.data();
  b.residual = added.data();
  b.count = tail;
  compute(b);
  expect_at_end(found, expected, "value");
}

TEST_F(EmulatedBiasRelu, CountsBeyond31Bits) {
  expect_same_at_the_end<float>(64);
  expect_same_at_the_end<float>(63);
  expect_same_at_the_end<Bfloat16>(64);
}

// --- Backward ------------------------------------------------------------------------------------

struct Sizes {
  std::int64_t row_count, channel_count;
  std::size_t output_misalignment = 0, gradient_misalignment = 0;

  std::int64_t value_count() const { return row_count * channel_count; }
};

// y and dy are for the caller to fill.
template <class Stored>
struct Backward {
  using T = Loaded<Stored>;
  const Sizes sizes;
  DeviceArray<Stored> output, output_gradients, gradient;
  DeviceArray<T> bias_gradient;
  DeviceArray<double> partials;

  explicit Backward(const Sizes& s)
      : sizes(s),
        output(Content::kInput, Zeros{static_cast<std::size_t>(s.value_count())},
               s.output_misalignment),
        output_gradients(Content::kInput, Zeros{output.size()}, s.gradient_misalignment),
        gradient(output.size(), s.gradient_misalignment),
        bias_gradient(static_cast<std::size_t>(s.channel_count)),
        partials(static_cast<std::size_t>(kernels::chunks_of_rows(s.row_count, s.channel_count) *
                                          s.channel_count)) {}

  BiasReluBackward<Stored> arguments() const {
    return {.output = output.data(),
            .output_gradients = output_gradients.data(),
            .row_count = sizes.row_count,
            .channel_count = sizes.channel_count,
            .partials = partials.data(),
            .gradient = gradient.data(),
            .bias_gradient = bias_gradient.data()};
  }
  void run() const {
    EXPECT_STREQ(kernels::bias_relu_backward_cuda(arguments(), nullptr), nullptr);
  }
};

// As a ReLU gives them: half are 0.
template <class Stored>
std::vector<Stored> draw_outputs(Draws& draws, std::int64_t count) {
  std::vector<Stored> outputs = draws.values<Stored>(count, -2, 2);
  for (Stored& y : outputs) {
    if (kernels::loaded(y) < 0) kernels::store(Loaded<Stored>(0), &y);
  }
  return outputs;
}

template <class Stored>
constexpr Tolerance kSumTolerance = sizeof(Stored) == 8 ? Tolerance{1e-12, 1e-12}
                                                        : Tolerance{1e-5, 1e-4};

template <class Stored>
void expect_backward(const Sizes& sizes) {
  SCOPED_TRACE(testing::Message() << sizes.row_count << " rows of " << sizes.channel_count
                                  << " channels, misaligned " << sizes.output_misalignment << ", "
                                  << sizes.gradient_misalignment << ", " << sizeof(Stored)
                                  << " bytes");
  const Backward<Stored> c(sizes);
  Draws draws(14);
  copy_to_end(draw_outputs<Stored>(draws, sizes.value_count()), c.output);
  copy_to_end(draws.values<Stored>(sizes.value_count(), -1, 1), c.output_gradients);
  c.run();
  std::vector<Stored> gradient(c.gradient.size());
  std::vector<Loaded<Stored>> bias_gradient(c.bias_gradient.size());
  BiasReluBackward<Stored> expected = c.arguments();
  expected.gradient = gradient.data();
  expected.bias_gradient = bias_gradient.data();
  compute(expected);
  expect_same_bits(c.gradient, gradient, "gradient");
  expect_close(c.bias_gradient, bias_gradient, kSumTolerance<Stored>, "bias' gradient");
}

template <class Stored>
void expect_backward_for_all() {
  // Single values; one column; less than a tile of columns; an uneven number.
  for (const std::int64_t channel_count : {1, 3, 8, 12, 64, 200}) {
    const std::int64_t chunk = kernels::rows_of_chunk(1, channel_count);
    for (const std::int64_t row_count :
         {std::int64_t{1}, std::int64_t{2}, std::int64_t{37}, chunk, 2 * chunk + 5}) {
      expect_backward<Stored>({row_count, channel_count});
    }
    expect_backward<Stored>({19, channel_count, /*output_misalignment=*/1, 0});
    expect_backward<Stored>({19, channel_count, 0, /*gradient_misalignment=*/1});
  }
  // Many tiles.
  for (const std::int64_t row_count : {1, 5, 67}) expect_backward<Stored>({row_count, 2048});
}

TEST_F(EmulatedBiasRelu, HasTheGradientOfTheCpu) {
  expect_backward_for_all<float>();
  expect_backward_for_all<double>();
  expect_backward_for_all<Bfloat16>();
  expect_backward_for_all<Float16>();
}

TEST_F(EmulatedBiasRelu, NeitherReadsNorWritesAGradientOfNothing) {
  const Backward<float> c({0, 64});
  c.run();
#ifdef RETINA_WITH_ACCESS_CHECKS  // which know what was written
  EXPECT_EQ(c.bias_gradient.unwritten_count(), c.bias_gradient.size());
#endif
}

// The mask lets pass what is under a NaN, and a NaN among the gradients reaches the sum.
TEST_F(EmulatedBiasRelu, HidesNoNanInItsGradient) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const Backward<float> c({40, 64});
  std::vector<float> y(40 * 64, 1), dy(40 * 64, 1);
  y[5] = kNan;
  dy[64 + 7] = kNan;
  copy_to_end(y, c.output);
  copy_to_end(dy, c.output_gradients);
  c.run();
  EXPECT_EQ(c.gradient[5], 1);
  for (std::size_t channel = 0; channel < 64; ++channel) {
    EXPECT_EQ(std::isnan(c.bias_gradient[channel]), channel == 7) << channel;
  }
}

// The last rows of more than 2^31 values, of which only their chunk's blocks run.
template <class Stored>
void expect_gradient_of_the_last_rows(std::int64_t channel_count, unsigned tile_count) {
  constexpr std::int64_t kTail = 40;
  Sizes sizes = {(std::int64_t{1} << 31) / channel_count + 1, channel_count};
  const std::int64_t chunk = kernels::rows_of_chunk(sizes.row_count, channel_count);
  sizes.row_count = (sizes.row_count + chunk - 1) / chunk * chunk + kTail;
  const Backward<Stored> c(sizes);
  Draws draws(15);
  const std::vector<Stored> y = draw_outputs<Stored>(draws, kTail * channel_count),
                            dy = draws.values<Stored>(kTail * channel_count, -1, 1);
  copy_to_end(y, c.output);
  copy_to_end(dy, c.output_gradients);
  std::fill_n(c.partials.data(), c.partials.size(), 0.0);  // those of the blocks that do not run
  run_only([tile_count](const uint3& block, const dim3& grid) {
    return grid.x < 1000 || block.x + tile_count >= grid.x;
  });
  c.run();
  run_only(nullptr);
  std::vector<Stored> gradient(y.size());
  std::vector<Loaded<Stored>> bias_gradient(c.bias_gradient.size());
  BiasReluBackward<Stored> tail = c.arguments();
  tail.output = y.data();
  tail.output_gradients = dy.data();
  tail.row_count = kTail;
  tail.gradient = gradient.data();
  tail.bias_gradient = bias_gradient.data();
  compute(tail);
  expect_at_end(c.gradient, gradient, "gradient");
  expect_close(c.bias_gradient, bias_gradient, kSumTolerance<Stored>, "bias' gradient");
}

TEST_F(EmulatedBiasRelu, CountsItsGradientBeyond31Bits) {
  expect_gradient_of_the_last_rows<float>(64, 1);
  expect_gradient_of_the_last_rows<Bfloat16>(512, 2);
  expect_gradient_of_the_last_rows<float>(63, 2);
}

}  // namespace
}  // namespace retina::emulation
