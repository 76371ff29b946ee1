#include "tests/gpu/emulation/kernel_test.h"
#include "tests/gpu/emulation/reference.h"

namespace retina::emulation {
namespace {

using kernels::Match;

class EmulatedMatcher : public KernelTest {};

template <class T>
struct Case {
  DeviceArray<T> anchors, boxes;
  DeviceArray<std::int64_t> offsets;

  // `offsets` as Match has them.
  Case(std::int64_t anchor_count, const std::vector<std::int64_t>& image_offsets)
      : anchors(Content::kInput, Draws(1).boxes<T>(anchor_count)),
        boxes(Content::kInput, Draws(2).boxes<T>(image_offsets.back())),
        offsets(Content::kInput, image_offsets) {}

  void expect_same_matches(bool low_quality) const {
    const DeviceArray<T> best(Content::kState, Zeros{boxes.size() / 4});
    const DeviceArray<std::int64_t> found((offsets.size() - 1) * anchors.size() / 4);
    Match<T> m = {.anchors = anchors.data(),
                  .boxes = boxes.data(),
                  .offsets = offsets.data(),
                  .image_count = static_cast<std::int64_t>(offsets.size()) - 1,
                  .anchor_count = static_cast<std::int64_t>(anchors.size()) / 4,
                  .foreground_iou = T(0.5),
                  .background_iou = T(0.4),
                  .low_quality_matches = low_quality,
                  .best_of_box = best.data(),
                  .matches = found.data()};
    EXPECT_STREQ(kernels::match_cuda(m, nullptr), nullptr);
    std::vector<std::int64_t> expected(found.size());
    m.matches = expected.data();
    compute(m);
    expect_same_bits(found, expected, "match");
  }
};

template <class T>
void expect_same_for_all_counts() {
  for (const std::int64_t anchor_count : kCounts) {
    for (const std::int64_t box_count : {0, 1, 7, 255, 256, 257, 600}) {
      SCOPED_TRACE(testing::Message() << anchor_count << " anchors, " << box_count << " boxes");
      // Tiles of boxes and a part of one; none; a part of one.
      const std::int64_t most = box_count - box_count / 7;
      for (const bool low_quality : {true, false}) {
        Case<T>(anchor_count, {0, most, most, box_count}).expect_same_matches(low_quality);
      }
    }
  }
}

TEST_F(EmulatedMatcher, MatchesAsTheCpuForAnyCounts) {
  expect_same_for_all_counts<float>();
  expect_same_for_all_counts<double>();
  Case<float>(100, {0}).expect_same_matches(true);  // no image
}

TEST_F(EmulatedMatcher, TakesTenThousandBoxesInAnImage) {
  Case<float>(300, {0, 3, 10'003}).expect_same_matches(true);
}

TEST_F(EmulatedMatcher, CountsBeyond31Bits) {
  constexpr std::int64_t kAnchors = 33'000, kBoxes = 3;
  const std::int64_t image_count = images_beyond_31_bits(kAnchors);
  const auto matches_in = [&](std::int64_t images) {
    std::vector<std::int64_t> image_offsets(static_cast<std::size_t>(images) + 1);
    image_offsets.back() = kBoxes;
    const Case<float> one(kAnchors, image_offsets);
    const DeviceArray<float> best(Content::kState, Zeros{kBoxes});
    const DeviceArray<std::int64_t> found(static_cast<std::size_t>(images * kAnchors));
    EXPECT_STREQ(kernels::match_cuda(Match<float>{.anchors = one.anchors.data(),
                                                  .boxes = one.boxes.data(),
                                                  .offsets = one.offsets.data(),
                                                  .image_count = images,
                                                  .anchor_count = kAnchors,
                                                  .foreground_iou = 0.5F,
                                                  .background_iou = 0.4F,
                                                  .low_quality_matches = true,
                                                  .best_of_box = best.data(),
                                                  .matches = found.data()},
                                     nullptr),
                 nullptr);
    return std::vector<std::int64_t>(found.data() + found.size() - kAnchors,
                                     found.data() + found.size());
  };
  const auto alone = matches_in(1);
  run_last_image_only();
  EXPECT_EQ(matches_in(image_count), alone);
}

}  // namespace
}  // namespace retina::emulation
