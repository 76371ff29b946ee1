#include <cmath>

#include "tests/gpu/emulation/kernel_test.h"
#include "tests/gpu/emulation/reference.h"

namespace retina::emulation {
namespace {

using kernels::Bfloat16;
using kernels::Dropout;
using kernels::Float16;
using kernels::Loaded;

class EmulatedDropout : public KernelTest {};

constexpr double kP = 0.3;

template <class Stored>
Dropout<Stored> dropout_of(const Stored* values, const std::int64_t* slots, Stored* out) {
  return {.values = values,
          .slots = slots,
          .image_count = 0,
          .value_count = 0,
          .channel_count = 1,
          .seed = 7,
          .step = 1U << 31,
          .layer = 65535,
          .threshold = static_cast<std::uint64_t>(std::ceil(std::ldexp(kP, 53))),
          .scale = static_cast<Loaded<Stored>>(1 / (1 - kP)),
          .out = out};
}

template <class Stored>
void expect_same(std::int64_t image_count, std::int64_t value_count, std::uint32_t channel_count) {
  SCOPED_TRACE(testing::Message() << image_count << " images of " << value_count << " values, "
                                  << channel_count << " channels");
  Draws draws(11);
  const DeviceArray<Stored> values(Content::kInput,
                                   draws.values<Stored>(image_count * value_count, -2, 2)),
      found(values.size());
  const DeviceArray<std::int64_t> slots(Content::kInput, draws.integers(image_count, 0, 65536));
  Dropout<Stored> d = dropout_of(values.data(), slots.data(), found.data());
  d.image_count = image_count;
  d.value_count = value_count;
  d.channel_count = channel_count;
  EXPECT_STREQ(kernels::dropout_cuda(d, nullptr), nullptr);
  std::vector<Stored> expected(found.size());
  d.out = expected.data();
  compute(d);
  expect_same_bits(found, expected, "value");
}

template <class Stored>
void expect_same_for_all_counts() {
  for (const std::int64_t count : kCounts) {
    for (const std::int64_t image_count : {0, 1, 3}) {
      expect_same<Stored>(image_count, count, 1);
      expect_same<Stored>(image_count, 5 * count, 5);
    }
  }
}

TEST_F(EmulatedDropout, HasTheBitsOfTheCpu) {
  expect_same_for_all_counts<float>();
  expect_same_for_all_counts<double>();
  expect_same_for_all_counts<Bfloat16>();
  expect_same_for_all_counts<Float16>();
}

// The last values of the second image, of 2^31 + 300.
TEST_F(EmulatedDropout, CountsBeyond31Bits) {
  constexpr std::int64_t kValues = (std::int64_t{1} << 31) + 300;
  constexpr std::uint32_t kLast = 100;
  const DeviceArray<Bfloat16> values(Content::kInput, Zeros{std::size_t{2} * kValues}),
      found(values.size()), expected(values.size());
  copy_to_end(Draws(11).values<Bfloat16>(kLast, -2, 2), values);
  const DeviceArray<std::int64_t> slots(Content::kInput, {5, 9});
  Dropout<Bfloat16> d = dropout_of(values.data(), slots.data(), found.data());
  d.image_count = 2;
  d.value_count = kValues;
  run_only(
      [](const uint3& block, const dim3& grid) { return block.y == 1 && block.x + 2 >= grid.x; });
  EXPECT_STREQ(kernels::dropout_cuda(d, nullptr), nullptr);
  d.out = expected.data();
  for (std::uint32_t i = 0; i < kLast; ++i) {
    put_dropout(d, 1, static_cast<std::uint32_t>(kValues - 1 - i));
  }
  EXPECT_EQ(std::memcmp(found.data() + found.size() - kLast, expected.data() + found.size() - kLast,
                        kLast * sizeof(Bfloat16)),
            0);
}

}  // namespace
}  // namespace retina::emulation
