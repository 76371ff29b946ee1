#include <cmath>
#include <memory>

#include "tests/gpu/emulation/kernel_test.h"
#include "tests/gpu/emulation/reference.h"

namespace retina::emulation {
namespace {

using kernels::Bfloat16;
using kernels::BoxLoss;
using kernels::Float16;
using kernels::Focal;
using kernels::HeadLoss;
using kernels::kPartials;
using kernels::Loaded;

class EmulatedHeadLosses : public KernelTest {};

constexpr std::int64_t kBoxes = 9;
const double kMaxLogSize = std::log(1000.0 / 16);

enum class Matches { kMixed, kAllIgnored, kAllBackground };

struct Sizes {
  std::int64_t image_count;
  std::vector<std::int64_t> level_anchors;
  std::int64_t values_per_anchor;
  Matches matches = Matches::kMixed;

  std::int64_t anchor_count() const {
    std::int64_t sum = 0;
    for (const std::int64_t anchors : level_anchors) sum += anchors;
    return sum;
  }
};

std::vector<std::int64_t> some_matches(const Sizes& sizes) {
  Draws draws(5);
  std::vector<std::int64_t> matches(
      static_cast<std::size_t>(sizes.image_count * sizes.anchor_count()));
  for (std::int64_t& match : matches) {
    match = sizes.matches == Matches::kAllIgnored      ? kIgnored
            : sizes.matches == Matches::kAllBackground ? kBackground
                                                       : draws.integer(-2, kBoxes);
  }
  return matches;
}

// Inputs and outputs of either loss.
template <class Stored>
struct Head {
  using T = Loaded<Stored>;
  const Sizes& sizes;
  std::vector<std::unique_ptr<DeviceArray<Stored>>> values, gradients;
  DeviceArray<std::int64_t> matches;
  DeviceArray<T> weights, sums;
  DeviceArray<double> partials;
  std::vector<std::vector<Stored>> expected_gradients;
  std::vector<T> expected_sums;

  Head(const Sizes& s, double range)
      : sizes(s),
        matches(Content::kInput, some_matches(s)),
        weights(Content::kInput, Draws(6).values<T>(s.image_count, -1.5, 1.5)),
        sums(weights.size()),
        partials(kPartials * weights.size()),
        expected_sums(weights.size()) {
    Draws draws(7);
    for (const std::int64_t anchors : s.level_anchors) {
      const std::int64_t count = s.image_count * anchors * s.values_per_anchor;
      values.push_back(std::make_unique<DeviceArray<Stored>>(
          Content::kInput, draws.values<Stored>(count, -range, range)));
      gradients.push_back(std::make_unique<DeviceArray<Stored>>(static_cast<std::size_t>(count)));
      expected_gradients.emplace_back(static_cast<std::size_t>(count));
    }
  }

  // For the kernel, or for what is expected of it.
  HeadLoss<Stored> arguments(bool expected) {
    HeadLoss<Stored> head = {};
    head.level_count = static_cast<int>(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      head.levels[i] = {.values = values[i]->data(),
                        .gradient = expected ? expected_gradients[i].data() : gradients[i]->data(),
                        .first_anchor = head.anchor_count,
                        .anchor_count = sizes.level_anchors[i]};
      head.anchor_count += sizes.level_anchors[i];
    }
    head.image_count = sizes.image_count;
    head.matches = matches.data();
    head.weights = weights.data();
    head.partials = partials.data();
    head.sums = expected ? expected_sums.data() : sums.data();
    return head;
  }

  // By the last bits of exp and log, of which each element may have a few.
  void expect_close_to_reference() const {
    const bool is_double = sizeof(Stored) == 8;
    const Tolerance sum = is_double ? Tolerance{1e-13, 1e-14} : Tolerance{2e-6, 1e-6},
                    gradient = is_double             ? Tolerance{1e-12, 1e-14}
                               : sizeof(Stored) == 4 ? Tolerance{2e-5, 1e-6}
                                                     : Tolerance{1e-2, 1e-6};
    expect_close(sums, expected_sums, sum, "sum");
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      expect_close(*gradients[i], expected_gradients[i], gradient, "gradient");
    }
  }
};

template <class Stored>
void expect_focal(const Sizes& sizes, double gamma) {
  using T = Loaded<Stored>;
  Head<Stored> head(sizes, 8);
  const DeviceArray<std::int64_t> labels(Content::kInput,
                                         Draws(8).integers(kBoxes, 0, sizes.values_per_anchor));
  Focal<Stored> f = {.head = head.arguments(false),
                     .labels = labels.data(),
                     .class_count = sizes.values_per_anchor,
                     .alpha = T(0.25),
                     .gamma = static_cast<T>(gamma)};
  EXPECT_STREQ(kernels::focal_cuda(f, nullptr), nullptr);
  f.head = head.arguments(true);
  compute(f);
  head.expect_close_to_reference();
}

// [count, 4], of sides of at least 1.
template <class T>
std::vector<T> some_boxes(Draws& draws, std::int64_t count) {
  std::vector<T> boxes = draws.values<T>(4 * count, 0, 90);
  for (std::size_t i = 2; i < boxes.size(); i += 4) {
    for (std::size_t side = 0; side < 2; ++side) boxes[i + side] += boxes[i + side - 2] + T(1);
  }
  return boxes;
}

template <class Stored>
void expect_quality(const Sizes& sizes, ClassLossKind kind) {
  using T = Loaded<Stored>;
  const Sizes offset_sizes = {sizes.image_count, sizes.level_anchors, 4};
  Head<Stored> head(sizes, 8), offsets(offset_sizes, 1.5);
  Draws draws(9);
  const DeviceArray<T> anchors(Content::kInput, some_boxes<T>(draws, sizes.anchor_count())),
      boxes(Content::kInput, some_boxes<T>(draws, kBoxes));
  const DeviceArray<std::int64_t> labels(Content::kInput,
                                         Draws(8).integers(kBoxes, 0, sizes.values_per_anchor));
  const auto with_deltas = [&](HeadLoss<Stored> arguments) {
    for (std::size_t i = 0; i < sizes.level_anchors.size(); ++i) {
      arguments.levels[i].deltas = offsets.values[i]->data();
    }
    return arguments;
  };
  Focal<Stored> f = {.head = with_deltas(head.arguments(false)),
                     .labels = labels.data(),
                     .class_count = sizes.values_per_anchor,
                     .alpha = kind == ClassLossKind::kVarifocal ? T(0.25) : T(0),
                     .gamma = T(2),
                     .kind = kind,
                     .predicted = {anchors.data(), boxes.data(), static_cast<T>(kMaxLogSize)}};
  EXPECT_STREQ(kernels::focal_cuda(f, nullptr), nullptr);
  f.head = with_deltas(head.arguments(true));
  compute(f);
  head.expect_close_to_reference();
}

template <class Stored>
void expect_box(const Sizes& sizes, BoxLossKind kind) {
  using T = Loaded<Stored>;
  Head<Stored> head(sizes, 1.5);
  Draws draws(9);
  const DeviceArray<T> anchors(Content::kInput, some_boxes<T>(draws, sizes.anchor_count())),
      boxes(Content::kInput, some_boxes<T>(draws, kBoxes));
  BoxLoss<Stored> b = {.head = head.arguments(false),
                       .anchors = anchors.data(),
                       .boxes = boxes.data(),
                       .options = {.kind = kind, .target_std = 0.2},
                       .max_log_size = kMaxLogSize};
  EXPECT_STREQ(kernels::box_loss_cuda(b, nullptr), nullptr);
  b.head = head.arguments(true);
  compute(b);
  head.expect_close_to_reference();
}

// `count` anchors on several levels, some of them empty.
std::vector<std::int64_t> on_levels(std::int64_t count) {
  const std::int64_t first = (count + 2) / 3;
  return {first, 0, count - first, 0};
}

TEST_F(EmulatedHeadLosses, FocalLossIsTheCpusForAnyCounts) {
  for (const std::int64_t count : kCounts) {
    SCOPED_TRACE(count);
    expect_focal<float>({2, on_levels(count), 3}, 2);
    expect_focal<double>({1, {count}, 3}, 1.5);
    expect_focal<Bfloat16>({1, on_levels(count), 80}, 2);
    expect_focal<Float16>({1, on_levels(count), 80}, 2);
  }
  expect_focal<float>({0, {5}, 3}, 2);
  expect_focal<float>({1, {5}, 1}, 1.5);
  expect_focal<float>({1, {300}, 3, Matches::kAllIgnored}, 2);
  expect_focal<float>({1, {300}, 3, Matches::kAllBackground}, 2);
}

TEST_F(EmulatedHeadLosses, QualityLossesAreTheCpusForAnyCounts) {
  for (const ClassLossKind kind : {ClassLossKind::kQualityFocal, ClassLossKind::kVarifocal}) {
    for (const std::int64_t count : kCounts) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(kind) << ", " << count << " anchors");
      expect_quality<float>({2, on_levels(count), 3}, kind);
      expect_quality<double>({1, {count}, 3}, kind);
      expect_quality<Bfloat16>({1, on_levels(count), 80}, kind);
      expect_quality<Float16>({1, on_levels(count), 80}, kind);
    }
    expect_quality<float>({0, {5}, 3}, kind);
    expect_quality<float>({1, {300}, 3, Matches::kAllIgnored}, kind);
    expect_quality<float>({1, {300}, 3, Matches::kAllBackground}, kind);
  }
}

TEST_F(EmulatedHeadLosses, BoxLossesAreTheCpusForAnyCounts) {
  for (const BoxLossKind kind :
       {BoxLossKind::kL1, BoxLossKind::kSmoothL1, BoxLossKind::kGiou, BoxLossKind::kCiou}) {
    for (const std::int64_t count : kCounts) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(kind) << ", " << count << " anchors");
      expect_box<float>({2, on_levels(count), 4}, kind);
      expect_box<double>({1, {count}, 4}, kind);
      expect_box<Bfloat16>({1, on_levels(count), 4}, kind);
      expect_box<Float16>({1, on_levels(count), 4}, kind);
    }
    expect_box<float>({0, {5}, 4}, kind);
    expect_box<float>({1, {300}, 4, Matches::kAllIgnored}, kind);
  }
}

// Of the pyramid over 800 x 800 pixels: each block takes more logits than it has threads.
TEST_F(EmulatedHeadLosses, TakeTheAnchorsOfAWholeImage) {
  const std::vector<std::int64_t> levels = {90'000, 22'500, 5625, 1521, 441};
  expect_box<Bfloat16>({1, levels, 4}, BoxLossKind::kL1);
  expect_box<Float16>({1, levels, 4}, BoxLossKind::kL1);
  expect_focal<float>({1, levels, 5}, 2);
}

// Gradients of the last image.
template <class Stored, class Run>
void expect_last_image_as_alone(std::int64_t anchor_count, std::int64_t values_per_anchor,
                                const Run& run) {
  using T = Loaded<Stored>;
  const std::int64_t per_image = anchor_count * values_per_anchor;
  const auto gradient_of_last_of = [&](std::int64_t image_count) {
    const auto images = static_cast<std::size_t>(image_count);
    const auto count = static_cast<std::size_t>(image_count * per_image);
    const DeviceArray<Stored> values(Content::kInput, Zeros{count}), gradient(count);
    const DeviceArray<std::int64_t> matches(Content::kInput,
                                            Zeros{images * static_cast<std::size_t>(anchor_count)});
    const DeviceArray<T> weights(Content::kInput, Zeros{images}), sums(images);
    const DeviceArray<double> partials(images * kPartials);
    copy_to_end(Draws(7).values<Stored>(per_image, -2, 2), values);
    copy_to_end(some_matches({1, {anchor_count}, values_per_anchor}), matches);
    weights[images - 1] = T(1.5);
    HeadLoss<Stored> head = {};
    head.level_count = 1;
    head.levels[0] = {values.data(), gradient.data(), 0, anchor_count};
    head.image_count = image_count;
    head.anchor_count = anchor_count;
    head.matches = matches.data();
    head.weights = weights.data();
    head.partials = partials.data();
    head.sums = sums.data();
    EXPECT_STREQ(run(head), nullptr);
    std::vector<float> results;
    for (std::int64_t i = 0; i < per_image; ++i) {
      results.push_back(static_cast<float>(
          kernels::loaded(gradient[gradient.size() - static_cast<std::size_t>(per_image - i)])));
    }
    results.push_back(static_cast<float>(sums[images - 1]));
    return results;
  };
  const auto alone = gradient_of_last_of(1);
  run_last_image_only();
  EXPECT_EQ(gradient_of_last_of(images_beyond_31_bits(per_image)), alone);
  run_only(nullptr);
}

TEST_F(EmulatedHeadLosses, FocalLossCountsBeyond31Bits) {
  const DeviceArray<std::int64_t> labels(Content::kInput, Draws(8).integers(kBoxes, 0, 80));
  expect_last_image_as_alone<float>(420, 80, [&](const HeadLoss<float>& head) {
    return kernels::focal_cuda(Focal<float>{head, labels.data(), 80, 0.25F, 2}, nullptr);
  });
}

TEST_F(EmulatedHeadLosses, BoxLossCountsBeyond31Bits) {
  constexpr std::int64_t kAnchors = 8'200;
  const DeviceArray<float> anchors(Content::kInput, Draws(1).boxes<float>(kAnchors)),
      boxes(Content::kInput, Draws(2).boxes<float>(kBoxes));
  expect_last_image_as_alone<float>(kAnchors, 4, [&](const HeadLoss<float>& head) {
    return kernels::box_loss_cuda(
        BoxLoss<float>{
            head, anchors.data(), boxes.data(), {.kind = BoxLossKind::kGiou}, kMaxLogSize},
        nullptr);
  });
}

// Where total * blockIdx.x is beyond 31 bits.
TEST_F(EmulatedHeadLosses, FocalLossTakesMoreLogitsThanA31BitShareHas) {
  constexpr std::int64_t kAnchors = 120'087, kClasses = 80;
  const auto count = static_cast<std::size_t>(kAnchors * kClasses);
  const DeviceArray<float> logits(Content::kInput,
                                  Draws(7).values<float>(kAnchors * kClasses, -8, 8)),
      gradient(count), weights(Content::kInput, std::vector<float>{1}), sums(1);
  const DeviceArray<std::int64_t> matches(
      Content::kInput, std::vector<std::int64_t>(static_cast<std::size_t>(kAnchors), kBackground));
  const DeviceArray<double> partials(kPartials);
  HeadLoss<float> head = {};
  head.level_count = 1;
  head.levels[0] = {logits.data(), gradient.data(), 0, kAnchors};
  head.image_count = 1;
  head.anchor_count = kAnchors;
  head.matches = matches.data();
  head.weights = weights.data();
  head.partials = partials.data();
  head.sums = sums.data();
  run_only([](const uint3& block, const dim3& grid) { return block.x + 1 == grid.x; });
  EXPECT_STREQ(kernels::focal_cuda(Focal<float>{head, nullptr, kClasses, 0.25F, 2}, nullptr),
               nullptr);
  std::size_t written = 0;
  for (std::size_t i = 0; i < count; ++i) written += std::isnan(gradient[i]) ? 0 : 1;
  EXPECT_EQ(written, count / kPartials + (count % kPartials == 0 ? 0 : 1));
  EXPECT_FALSE(std::isnan(gradient[count - count / kPartials]));
}

}  // namespace
}  // namespace retina::emulation
