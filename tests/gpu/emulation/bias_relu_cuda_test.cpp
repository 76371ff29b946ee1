#include <optional>

#include "tests/gpu/emulation/kernel_test.h"
#include "tests/gpu/emulation/reference.h"

namespace retina::emulation {
namespace {

using kernels::Bfloat16;
using kernels::BiasRelu;
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

}  // namespace
}  // namespace retina::emulation
