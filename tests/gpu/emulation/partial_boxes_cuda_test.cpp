#include "tests/gpu/emulation/kernel_test.h"
#include "tests/gpu/emulation/reference.h"

namespace retina::emulation {
namespace {

using kernels::IgnorePartial;

class EmulatedPartialBoxes : public KernelTest {};

template <class T>
struct Case {
  DeviceArray<T> anchors, boxes;
  DeviceArray<std::int64_t> offsets;

  Case(std::int64_t anchor_count, const std::vector<std::int64_t>& image_offsets)
      : anchors(Content::kInput, Draws(1).boxes<T>(anchor_count)),
        boxes(Content::kInput, Draws(2).boxes<T>(image_offsets.back())),
        offsets(Content::kInput, image_offsets) {}

  std::int64_t anchor_count() const { return static_cast<std::int64_t>(anchors.size()) / 4; }
  std::int64_t image_count() const { return static_cast<std::int64_t>(offsets.size()) - 1; }

  // kIgnored, kBackground or a box; more of the second than of others.
  std::vector<std::int64_t> some_matches(std::uint64_t seed) const {
    std::vector<std::int64_t> matches =
        Draws(seed).integers(image_count() * anchor_count(), kIgnored - 4, 3);
    for (std::int64_t& match : matches) match = match < kIgnored ? kBackground : match;
    return matches;
  }
  // Of images without boxes, as of an assigner, none.
  std::vector<std::int64_t> some_claims() const {
    std::vector<std::int64_t> claims = some_matches(3);
    for (std::int64_t n = 0; n < image_count(); ++n) {
      if (offsets[static_cast<std::size_t>(n)] != offsets[static_cast<std::size_t>(n) + 1])
        continue;
      std::fill_n(claims.begin() + n * anchor_count(), anchor_count(), kBackground);
    }
    return claims;
  }
  IgnorePartial<T> arguments(const std::int64_t* claims, std::int64_t* matches) const {
    return {.anchors = anchors.data(),
            .boxes = boxes.data(),
            .offsets = offsets.data(),
            .claims = claims,
            .image_count = image_count(),
            .anchor_count = anchor_count(),
            .matches = matches};
  }

  void expect_same_matches() const {
    const DeviceArray<std::int64_t> claims(Content::kInput, some_claims());
    std::vector<std::int64_t> expected = some_matches(4);
    const DeviceArray<std::int64_t> found(Content::kState, expected);
    EXPECT_STREQ(kernels::ignore_partial_cuda(arguments(claims.data(), found.data()), nullptr),
                 nullptr);
    compute(arguments(claims.data(), expected.data()));
    expect_same_bits(found, expected, "match");
  }
};

TEST_F(EmulatedPartialBoxes, IgnoresAsTheCpuForAnyCounts) {
  for (const std::int64_t anchor_count : kCounts) {
    for (const std::int64_t box_count : {0, 1, 7, 40}) {
      SCOPED_TRACE(testing::Message() << anchor_count << " anchors, " << box_count << " boxes");
      const std::int64_t most = box_count - box_count / 7;
      Case<float>(anchor_count, {0, 0, most, most, box_count}).expect_same_matches();
      Case<double>(anchor_count, {0, most, most, box_count}).expect_same_matches();
    }
  }
  Case<float>(100, {0}).expect_same_matches();  // no image
}

TEST_F(EmulatedPartialBoxes, HalfOfAnAnchorIsEnough) {
  const DeviceArray<float> anchors(Content::kInput, std::vector<float>{0, 0, 10, 10}),
      boxes(Content::kInput, std::vector<float>{0, 5, 10, 90, 0, 5.001F, 10, 90});
  const DeviceArray<std::int64_t> offsets(Content::kInput, std::vector<std::int64_t>{0, 1, 2}),
      claims(Content::kInput, std::vector<std::int64_t>{kBackground, kBackground}),
      matches(Content::kState, std::vector<std::int64_t>{kBackground, kBackground});
  EXPECT_STREQ(kernels::ignore_partial_cuda(IgnorePartial<float>{.anchors = anchors.data(),
                                                                 .boxes = boxes.data(),
                                                                 .offsets = offsets.data(),
                                                                 .claims = claims.data(),
                                                                 .image_count = 2,
                                                                 .anchor_count = 1,
                                                                 .matches = matches.data()},
                                            nullptr),
               nullptr);
  EXPECT_EQ(matches.values(), (std::vector<std::int64_t>{kIgnored, kBackground}));
}

TEST_F(EmulatedPartialBoxes, CountsBeyond31Bits) {
  constexpr std::int64_t kAnchors = 33'000, kBoxes = 3;
  const std::int64_t image_count = images_beyond_31_bits(kAnchors);
  const auto matches_in = [&](std::int64_t images) {
    std::vector<std::int64_t> image_offsets(static_cast<std::size_t>(images) + 1);
    image_offsets.back() = kBoxes;
    const Case<float> one(kAnchors, image_offsets), last(kAnchors, {0, kBoxes});
    const auto count = static_cast<std::size_t>(images * kAnchors);
    const DeviceArray<std::int64_t> claims(Content::kInput, Zeros{count}),
        found(Content::kState, Zeros{count});
    copy_to_end(last.some_claims(), claims);
    copy_to_end(last.some_matches(4), found);
    EXPECT_STREQ(kernels::ignore_partial_cuda(one.arguments(claims.data(), found.data()), nullptr),
                 nullptr);
    return std::vector<std::int64_t>(found.data() + count - kAnchors, found.data() + count);
  };
  const auto alone = matches_in(1);
  run_last_image_only();
  EXPECT_EQ(matches_in(image_count), alone);
}

}  // namespace
}  // namespace retina::emulation
