// What the tests of emulated kernels share: random inputs, the order of blocks and threads, and
// comparisons.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "shared/base/random.h"
#include "shared/ops/formulas.h"
#include "tests/gpu/emulation/device_array.h"
#include "tests/gpu/emulation/grid.h"

namespace retina::emulation {

// Blocks and threads go in another order at each run, unless RETINA_EMULATION_SEED repeats one.
class KernelTest : public testing::Test {
 protected:
  KernelTest() {
    const char* const wanted = std::getenv("RETINA_EMULATION_SEED");
    const std::uint64_t seed =
        wanted == nullptr ? std::random_device()() : std::strtoull(wanted, nullptr, 10);
    std::cout << "RETINA_EMULATION_SEED=" << seed << "\n";
    set_seed(seed);
  }
  ~KernelTest() override { run_only(nullptr); }
};

// The sizes of values, boxes or anchors at which something begins or ends.
constexpr std::int64_t kCounts[] = {0, 1, 63, 64, 65, 255, 256, 257, 600};

class Draws {
 public:
  explicit Draws(std::uint64_t seed) : stream_{.seed = seed, .use = RandomUse::kTest} {}

  double between(double low, double high) { return low + (high - low) * stream_.unit(place_++); }
  // In low .. high - 1.
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(
                     stream_.below(place_++, static_cast<std::uint64_t>(high - low)));
  }
  std::vector<std::int64_t> integers(std::int64_t count, std::int64_t low, std::int64_t high) {
    std::vector<std::int64_t> values(static_cast<std::size_t>(count));
    for (std::int64_t& value : values) value = integer(low, high);
    return values;
  }
  template <class Stored>
  std::vector<Stored> values(std::int64_t count, double low, double high) {
    std::vector<Stored> values(static_cast<std::size_t>(count));
    for (Stored& value : values) {
      kernels::store(static_cast<kernels::Loaded<Stored>>(between(low, high)), &value);
    }
    return values;
  }
  // [count, 4] of whole pixels, which tie often; every seventh is there twice, few have no area.
  template <class T>
  std::vector<T> boxes(std::int64_t count, double extent = 200) {
    std::vector<T> values;
    for (std::int64_t i = 0; i < count; ++i) {
      if (i % 7 == 3) {
        const std::vector<T> last(values.end() - 4, values.end());
        values.insert(values.end(), last.begin(), last.end());
        continue;
      }
      const double x = std::floor(between(0, extent)), y = std::floor(between(0, extent));
      values.insert(values.end(), {static_cast<T>(x), static_cast<T>(y),
                                   static_cast<T>(x + std::floor(between(0, 60))),
                                   static_cast<T>(y + std::floor(between(0, 60)))});
    }
    return values;
  }

 private:
  RandomStream stream_;
  std::uint64_t place_ = 0;
};

template <class T>
void expect_same_bits(const DeviceArray<T>& found, const std::vector<T>& expected,
                      const char* what) {
  EXPECT_EQ(found.unwritten_count(), 0U) << what;
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(std::memcmp(&found[i], &expected[i], sizeof(T)), 0)
        << what << " " << i << " of " << expected.size();
  }
}

struct Tolerance {
  double relative, absolute;
};
template <class T>
void expect_close(const DeviceArray<T>& found, const std::vector<T>& expected,
                  const Tolerance& tolerance, const char* what) {
  EXPECT_EQ(found.unwritten_count(), 0U) << what;
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto a = static_cast<double>(kernels::loaded(found[i])),
               b = static_cast<double>(kernels::loaded(expected[i]));
    ASSERT_NEAR(a, b, tolerance.relative * std::abs(b) + tolerance.absolute)
        << what << " " << i << " of " << expected.size();
  }
}

// For an image at the end of a batch of more than 2^31 values: only its blocks run, in grids that
// have an image along y or, where they have no y, along x. Memory for the other images is not
// touched.
inline void run_last_image_only() {
  run_only([](const uint3& block, const dim3& grid) {
    return grid.y > 1 ? block.y + 1 == grid.y : block.x + 1 == grid.x;
  });
}

// More than 2^31 / `values_per_image`, few enough for a grid.
inline std::int64_t images_beyond_31_bits(std::int64_t values_per_image) {
  const std::int64_t count = (std::int64_t{1} << 31) / values_per_image + 2;
  EXPECT_LE(count, 65535);
  return count;
}

template <class T>
void copy_to_end(const std::vector<T>& values, const DeviceArray<T>& array) {
  if (values.empty()) return;
  std::memcpy(array.data() + array.size() - values.size(), values.data(),
              values.size() * sizeof(T));
}
template <class T>
void expect_at_end(const DeviceArray<T>& array, const std::vector<T>& values, const char* what) {
  EXPECT_EQ(std::memcmp(array.data() + array.size() - values.size(), values.data(),
                        values.size() * sizeof(T)),
            0)
      << what;
}

}  // namespace retina::emulation
