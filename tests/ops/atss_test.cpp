#include "shared/ops/atss.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "shared/numeric/random.h"
#include "shared/ops/atss_formulas.h"
#include "tests/ops/test_tensors.h"

namespace retina {
namespace {

// The anchors of a padded image.
struct Pyramid {
  std::vector<PixelSize> grids;
  int per_cell;
  at::Tensor anchors;  // [A, 4] f32

  explicit Pyramid(PixelSize padded, double offset = 0, int anchors_per_cell = kAnchorsPerCell)
      : per_cell(anchors_per_cell) {
    const auto of_levels = level_grids(padded);
    grids = {of_levels.begin(), of_levels.end()};
    std::vector<AnchorBox> all = grid_anchors(
        {.sizes = {16, 32, 64, 128, 256}, .per_cell = per_cell, .offset = offset}, padded);
    anchors = torch::from_blob(all.data(), {static_cast<std::int64_t>(all.size()), 4}).clone();
  }

  at::Tensor match(const at::Tensor& boxes, const std::vector<std::int64_t>& offsets) const {
    return atss_match_anchors(anchors.to(boxes.scalar_type()), grids, boxes,
                              torch::tensor(offsets));
  }
  at::Tensor match(const at::Tensor& boxes) const { return match(boxes, {0, boxes.size(0)})[0]; }
};

// Zhang et al. 2020, algorithm 1, with all anchors of a level in the order of their distances, in
// plain loops. Of one image.
template <class T>
std::vector<std::int64_t> by_algorithm(const Pyramid& pyramid, const at::Tensor& boxes) {
  const at::Tensor typed = pyramid.anchors.to(boxes.scalar_type());
  const auto anchors = typed.accessor<T, 2>(), truth = boxes.accessor<T, 2>();
  std::vector<std::int64_t> matches(static_cast<std::size_t>(anchors.size(0)), kBackground);
  std::vector<T> best(matches.size(), -1);
  for (std::int64_t g = 0; g < boxes.size(0); ++g) {
    const auto box = truth[g];
    const auto centre = [](const auto& of, int axis) { return (of[axis] + of[axis + 2]) / 2; };
    const auto area = [](const auto& of) { return (of[2] - of[0]) * (of[3] - of[1]); };
    std::vector<std::pair<std::int64_t, T>> candidates;  // anchor, IoU
    std::int64_t first = 0;
    for (const PixelSize& grid : pyramid.grids) {
      const std::int64_t count = std::int64_t{grid.height} * grid.width * pyramid.per_cell;
      std::vector<std::pair<T, std::int64_t>> by_distance;
      for (std::int64_t a = first; a < first + count; ++a) {
        const T x = centre(anchors[a], 0) - centre(box, 0),
                y = centre(anchors[a], 1) - centre(box, 1);
        by_distance.emplace_back(x * x + y * y, a);
      }
      std::sort(by_distance.begin(), by_distance.end());
      by_distance.resize(
          std::min<std::size_t>(by_distance.size(), std::size_t(9 * pyramid.per_cell)));
      for (const auto& [distance, a] : by_distance) {
        const auto anchor = anchors[a];
        const T width = std::max<T>(0, std::min(anchor[2], box[2]) - std::max(anchor[0], box[0])),
                height = std::max<T>(0, std::min(anchor[3], box[3]) - std::max(anchor[1], box[1]));
        const T inter = width * height;
        candidates.emplace_back(a, inter / (area(box) + area(anchor) - inter));
      }
      first += count;
    }
    double mean = 0, variance = 0;
    for (const auto& [a, iou] : candidates) mean += static_cast<double>(iou);
    mean /= static_cast<double>(candidates.size());
    for (const auto& [a, iou] : candidates)
      variance += std::pow(static_cast<double>(iou) - mean, 2);
    variance /= static_cast<double>(candidates.size() - 1);
    for (const auto& [a, iou] : candidates) {
      const T x = centre(anchors[a], 0), y = centre(anchors[a], 1);
      const T inside = std::min({x - box[0], y - box[1], box[2] - x, box[3] - y});
      const auto place = static_cast<std::size_t>(a);
      if (static_cast<double>(iou) < mean + std::sqrt(variance) || !(inside > T(0.01))) continue;
      if (iou <= best[place]) continue;
      best[place] = iou;
      matches[place] = g;
    }
  }
  return matches;
}

void expect_as_algorithm(const Pyramid& pyramid, const at::Tensor& boxes) {
  const auto expected = boxes.scalar_type() == at::kFloat ? by_algorithm<float>(pyramid, boxes)
                                                          : by_algorithm<double>(pyramid, boxes);
  const at::Tensor found = pyramid.match(boxes);
  EXPECT_TRUE(found.equal(torch::tensor(expected)))
      << found.ne(torch::tensor(expected)).sum().item<std::int64_t>() << " anchors differ";
}

// 0 to 11 boxes of any size, over the border, on whole pixels, and some of them twice.
at::Tensor boxes_of_image(std::uint64_t seed, PixelSize size) {
  const RandomStream random{.seed = seed, .use = RandomUse::kTest};
  std::uint64_t draw = 0;
  const auto between = [&](double low, double high) {
    return low + (high - low) * random.unit(draw++);
  };
  const std::int64_t count = static_cast<std::int64_t>(random.below(draw++, 12));
  at::Tensor boxes = torch::zeros({count, 4}, at::kDouble);
  for (std::int64_t g = 0; g < count; ++g) {
    if (g % 5 == 4) {
      boxes[g] = boxes[g - 2];
      continue;
    }
    // From less than a pixel to beyond the image.
    const double width = std::exp(between(-0.5, 6.5)),
                 height = width * std::exp(between(-1.5, 1.5));
    const double x = between(-10, size.width + 10), y = between(-10, size.height + 10);
    boxes[g] = torch::tensor({x - width / 2, y - height / 2, x + width / 2, y + height / 2});
    if (g % 3 == 0)
      boxes[g] =
          torch::stack({boxes[g].slice(0, 0, 2).floor(), boxes[g].slice(0, 2).ceil()}).flatten();
  }
  return boxes;
}

TEST(Atss, EqualsThePapersAlgorithmOnAThousandImagesWithNineAnchorsACellAndOne) {
  const std::vector<PixelSize> sizes = {{96, 160}, {128, 128}, {32, 32}, {64, 256}};
  std::vector<Pyramid> pyramids;
  for (const PixelSize& size : sizes) {
    pyramids.emplace_back(size);
    pyramids.emplace_back(size, 0.5);
    pyramids.emplace_back(size, 0.5, 1);
  }
  std::int64_t foreground = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    const std::size_t place = seed % pyramids.size();
    const at::Tensor boxes =
        boxes_of_image(seed, sizes[place / 3]).to(seed % 3 == 0 ? at::kDouble : at::kFloat);
    expect_as_algorithm(pyramids[place], boxes);
    foreground += pyramids[place].match(boxes).ge(0).sum().item<std::int64_t>();
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  EXPECT_GT(foreground, 10'000);
}

// Distances tie where a centre lies between cells, and at corners of the image.
TEST(Atss, TiesOfDistancesGoToTheFirstCells) {
  const Pyramid pyramid({.height = 128, .width = 192});
  std::vector<at::Tensor> boxes;
  for (const double x : {0., 4., 8., 60., 64., 92., 96., 188., 192.}) {
    for (const double y : {0., 4., 16., 64., 124., 128.}) {
      for (const double half : {2., 12., 40., 200.}) {
        boxes.push_back(torch::tensor({x - half, y - half, x + half, y + half}));
      }
    }
  }
  for (const at::Tensor& box : boxes) expect_as_algorithm(pyramid, box.view({1, 4}));
  // Levels of one row.
  const Pyramid panorama({.height = 32, .width = 512});
  for (int x = 0; x <= 512; x += 8) {
    expect_as_algorithm(panorama, torch::tensor({x - 300., -100., x + 300., 130.}).view({1, 4}));
  }
  expect_as_algorithm(pyramid, torch::stack(boxes));
}

// By distance, then place: of any centre, also far outside, where rounded distances tie.
TEST(Atss, FindsTheNearestCellsOfAnyGrid) {
  const RandomStream random{.seed = 7, .use = RandomUse::kTest};
  std::uint64_t draw = 0;
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE(round);
    const auto side = [&] { return static_cast<std::int32_t>(1 + random.below(draw++, 40)); };
    const std::int32_t rows = round % 5 == 0 ? 1 : side(), columns = round % 7 == 0 ? 1 : side();
    const float stride = 8 << random.below(draw++, 5);
    std::vector<float> anchors;  // one a cell
    for (std::int32_t cell = 0; cell < rows * columns; ++cell) {
      const float x = stride * static_cast<float>(cell % columns),
                  y = stride * static_cast<float>(cell / columns);
      anchors.insert(anchors.end(), {x - 9, y - 5, x + 9, y + 5});
    }
    const double reach = round % 4 == 0 ? 1e5 : 1.2;
    float box[4];
    for (const int axis : {0, 1}) {
      const double length = static_cast<double>(stride) * (axis == 0 ? columns : rows);
      float place = static_cast<float>(length * (0.5 + reach * (random.unit(draw++) - 0.5)));
      if (round % 3 == 0) place = std::floor(place / 4) * 4;  // ties
      box[axis] = place - 16;
      box[2 + axis] = place + 16;
    }
    const kernels::AtssLevel level = {.first_anchor = 0, .rows = rows, .columns = columns};
    kernels::Atss<float> a = {};
    a.anchors = anchors.data();
    a.anchors_per_cell = 1;
    std::vector<std::int32_t> found(kernels::kAtssCells), expected(found.size(), -1);
    kernels::find_nearest_cells(a, level, box, found.data());
    std::vector<std::pair<float, std::int32_t>> all;
    for (std::int32_t cell = 0; cell < rows * columns; ++cell) {
      const float* const anchor = anchors.data() + 4 * cell;
      const float x = (anchor[0] + anchor[2]) / 2 - (box[0] + box[2]) / 2,
                  y = (anchor[1] + anchor[3]) / 2 - (box[1] + box[3]) / 2;
      all.emplace_back(x * x + y * y, cell);
    }
    std::sort(all.begin(), all.end());
    for (std::size_t i = 0; i < std::min(all.size(), expected.size()); ++i) {
      expected[i] = all[i].second;
    }
    ASSERT_EQ(found, expected);
  }
}

TEST(Atss, WithoutBoxesEverythingIsBackground) {
  const Pyramid pyramid({.height = 64, .width = 64});
  const at::Tensor matches = pyramid.match(torch::zeros({0, 4}), {0, 0, 0});
  EXPECT_EQ(matches.size(0), 2);
  EXPECT_TRUE(matches.eq(kBackground).all().item<bool>());
}

TEST(Atss, ABoxBetweenAllCentresHasNoAnchor) {
  const Pyramid pyramid({.height = 64, .width = 64});
  const at::Tensor matches = pyramid.match(torch::tensor({9.F, 9.F, 15.F, 15.F}).view({1, 4}));
  EXPECT_TRUE(matches.eq(kBackground).all().item<bool>());
}

TEST(Atss, TwinBoxesGoToTheFirst) {
  const Pyramid pyramid({.height = 128, .width = 128});
  const at::Tensor box = torch::tensor({20.F, 20.F, 90.F, 80.F}).view({1, 4});
  const at::Tensor one = pyramid.match(box), two = pyramid.match(torch::cat({box, box}));
  EXPECT_GT(one.eq(0).sum().item<std::int64_t>(), 0);
  EXPECT_TRUE(two.equal(one));
}

TEST(Atss, EachImageOfABatchHasItsOwnBoxes) {
  const Pyramid pyramid({.height = 128, .width = 160});
  const at::Tensor boxes = random_boxes({.seed = 3, .count = 30, .extent = 120}).to(at::kFloat);
  const std::vector<std::int64_t> offsets = {0, 0, 11, 12, 12, 30};
  const at::Tensor matches = pyramid.match(boxes, offsets);
  for (std::size_t n = 0; n + 1 < offsets.size(); ++n) {
    at::Tensor expected = pyramid.match(boxes.slice(0, offsets[n], offsets[n + 1]));
    expected = torch::where(expected.ge(0), expected + offsets[n], expected);
    EXPECT_TRUE(matches[static_cast<std::int64_t>(n)].equal(expected)) << n;
  }
}

TEST(Atss, DoesNotDependOnTheNumberOfThreads) {
  const Pyramid pyramid({.height = 320, .width = 320});
  const at::Tensor boxes = random_boxes({.seed = 4, .count = 500, .extent = 300});
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = pyramid.match(boxes, {0, 400, 450, 500});
  at::set_num_threads(3);
  const at::Tensor three = pyramid.match(boxes, {0, 400, 450, 500});
  at::set_num_threads(threads);
  EXPECT_TRUE(one.equal(three));
}

// The whole matrix would have 1.2 billion IoUs.
TEST(Atss, TakesTenThousandBoxesOfAnImage) {
  const Pyramid pyramid({.height = 800, .width = 800});
  const at::Tensor boxes =
      random_boxes({.seed = 5, .count = 10'000, .extent = 800, .side = 200}).to(at::kFloat);
  const at::Tensor matches = pyramid.match(boxes);
  EXPECT_GT(matches.ge(0).sum().item<std::int64_t>(), 1000);
}

}  // namespace
}  // namespace retina
