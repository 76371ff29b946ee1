#include "tests/gpu/emulation/kernel_test.h"
#include "tests/gpu/emulation/reference.h"

namespace retina::emulation {
namespace {

using kernels::Nms;

class EmulatedNms : public KernelTest {};

std::size_t mask_words(std::int64_t image_count, std::int64_t count) {
  return static_cast<std::size_t>(image_count * (count + 1) * ((count + 63) / 64));
}

struct Case {
  std::int64_t image_count, count;
  double iou_threshold = 0.5;
};

template <class T>
void expect_same_boxes(const Case& c) {
  Draws draws(3);
  const DeviceArray<T> boxes(Content::kInput, draws.boxes<T>(c.image_count * c.count, 100));
  const DeviceArray<std::int64_t> labels(Content::kInput,
                                         draws.integers(c.image_count * c.count, -1, 3));
  const DeviceArray<std::uint64_t> mask(mask_words(c.image_count, c.count));
  const DeviceArray<std::uint8_t> found(labels.size());
  Nms<T> n = {.boxes = boxes.data(),
              .labels = labels.data(),
              .image_count = c.image_count,
              .count = c.count,
              .iou_threshold = c.iou_threshold,
              .mask = mask.data(),
              .keep = reinterpret_cast<bool*>(found.data())};
  EXPECT_STREQ(kernels::nms_cuda(n, nullptr), nullptr);
  std::vector<std::uint8_t> expected(found.size());
  n.keep = reinterpret_cast<bool*>(expected.data());
  compute(n);
  expect_same_bits(found, expected, "keep");
}

TEST_F(EmulatedNms, KeepsWhatTheCpuKeepsForAnyCounts) {
  for (const std::int64_t count : kCounts) {
    for (const std::int64_t image_count : {0, 1, 3}) {
      SCOPED_TRACE(testing::Message() << image_count << " images, " << count << " boxes");
      const Case one = {.image_count = image_count, .count = count};
      expect_same_boxes<float>(one);
      expect_same_boxes<double>(one);
    }
    expect_same_boxes<float>({.image_count = 1, .count = count, .iou_threshold = 0.31});
  }
}

// An IoU of 31 / 100 is an f32 above 0.31.
TEST_F(EmulatedNms, ComparesTheThresholdInF64) {
  const DeviceArray<float> boxes(Content::kInput, {0, 0, 100, 1, 0, 0, 31, 1});
  const DeviceArray<std::int64_t> labels(Content::kInput, {0, 0});
  const DeviceArray<std::uint64_t> mask(mask_words(1, 2));
  const DeviceArray<std::uint8_t> keep(2);
  EXPECT_STREQ(kernels::nms_cuda(Nms<float>{.boxes = boxes.data(),
                                            .labels = labels.data(),
                                            .image_count = 1,
                                            .count = 2,
                                            .iou_threshold = 0.31,
                                            .mask = mask.data(),
                                            .keep = reinterpret_cast<bool*>(keep.data())},
                                 nullptr),
               nullptr);
  EXPECT_EQ(keep[0], 1);
  EXPECT_EQ(keep[1], 0);
}

TEST_F(EmulatedNms, TakesTenThousandBoxesInAnImage) {
  expect_same_boxes<float>({.image_count = 1, .count = 10'000});
}

TEST_F(EmulatedNms, CountsBeyond31Bits) {
  constexpr std::int64_t kBoxes = 2000;
  const auto images = images_beyond_31_bits(static_cast<std::int64_t>(mask_words(1, kBoxes)));
  const auto kept_in_last_of = [&](std::int64_t image_count) {
    const auto count = static_cast<std::size_t>(image_count * kBoxes);
    const DeviceArray<float> boxes(Content::kInput, Zeros{4 * count});
    copy_to_end(Draws(4).boxes<float>(kBoxes), boxes);
    const DeviceArray<std::int64_t> labels(Content::kInput, Zeros{count});
    const DeviceArray<std::uint64_t> mask(mask_words(image_count, kBoxes));
    const DeviceArray<std::uint8_t> keep(count);
    EXPECT_STREQ(kernels::nms_cuda(Nms<float>{.boxes = boxes.data(),
                                              .labels = labels.data(),
                                              .image_count = image_count,
                                              .count = kBoxes,
                                              .iou_threshold = 0.5,
                                              .mask = mask.data(),
                                              .keep = reinterpret_cast<bool*>(keep.data())},
                                   nullptr),
                 nullptr);
    return std::vector<std::uint8_t>(keep.data() + count - kBoxes, keep.data() + count);
  };
  const auto alone = kept_in_last_of(1);
  run_only([](const uint3& block, const dim3& grid) {
    return grid.z > 1 ? block.z + 1 == grid.z : block.x + 1 == grid.x;
  });
  EXPECT_EQ(kept_in_last_of(images), alone);
}

}  // namespace
}  // namespace retina::emulation
