#include "tests/gpu/emulation/kernel_test.h"
#include "tests/gpu/emulation/reference.h"

namespace retina::emulation {
namespace {

using kernels::Atss;

class EmulatedAtss : public KernelTest {};

struct Grid {
  std::int32_t rows, columns;
  int stride;
};

// Anchors about the centres of their cells.
template <class T>
std::vector<T> anchors_of(const std::vector<Grid>& grids, std::int64_t per_cell) {
  std::vector<T> values;
  for (const Grid& grid : grids) {
    for (std::int32_t cell = 0; cell < grid.rows * grid.columns; ++cell) {
      const int x = cell % grid.columns * grid.stride, y = cell / grid.columns * grid.stride;
      for (int i = 0; i < per_cell; ++i) {
        const int half_width = grid.stride * (2 + i % 3), half_height = grid.stride * (2 + i / 3);
        for (const int corner :
             {x - half_width, y - half_height, x + half_width, y + half_height}) {
          values.push_back(static_cast<T>(corner));
        }
      }
    }
  }
  return values;
}

// [count, 4]; every third is large, and its centre as far from cells on its left as on its right.
template <class T>
std::vector<T> boxes_of(std::int64_t count) {
  Draws draws(2);
  std::vector<T> boxes = draws.boxes<T>(count);
  for (std::size_t i = 0; i < boxes.size(); i += 12) {
    for (std::size_t axis = 0; axis < 2; ++axis) {
      const auto centre = static_cast<T>(4 * draws.integer(0, 60)),
                 half = static_cast<T>(draws.integer(20, 300));
      boxes[i + axis] = centre - half;
      boxes[i + 2 + axis] = centre + half;
    }
  }
  return boxes;
}

template <class T>
struct Case {
  std::int64_t per_cell;
  std::vector<Grid> grids;
  DeviceArray<T> anchors, boxes;
  DeviceArray<std::int64_t> offsets;

  Case(const std::vector<Grid>& level_grids, std::int64_t anchors_per_cell,
       const std::vector<std::int64_t>& image_offsets)
      : per_cell(anchors_per_cell),
        grids(level_grids),
        anchors(Content::kInput, anchors_of<T>(grids, per_cell)),
        boxes(Content::kInput, boxes_of<T>(image_offsets.back())),
        offsets(Content::kInput, image_offsets) {}

  Atss<T> arguments(T* best, std::int64_t* matches) const {
    Atss<T> a = {};
    a.anchors = anchors.data();
    a.boxes = boxes.data();
    a.offsets = offsets.data();
    a.image_count = static_cast<std::int64_t>(offsets.size()) - 1;
    a.box_count = static_cast<std::int64_t>(boxes.size()) / 4;
    a.anchors_per_cell = per_cell;
    for (const Grid& grid : grids) {
      a.levels[a.level_count++] = {a.anchor_count, grid.rows, grid.columns};
      a.anchor_count += per_cell * grid.rows * grid.columns;
    }
    a.best = best;
    a.matches = matches;
    return a;
  }

  // Runs the kernels; `matches` and `best` are of all images.
  void run(const DeviceArray<T>& best, const DeviceArray<std::int64_t>& matches) const {
    Atss<T> a = arguments(best.data(), matches.data());
    const std::int64_t cell_count = a.level_count * kernels::kAtssCells;
    const DeviceArray<std::int32_t> cells(static_cast<std::size_t>(a.box_count * cell_count));
    const DeviceArray<double> thresholds(static_cast<std::size_t>(a.box_count));
    a.cells = cells.data();
    a.thresholds = thresholds.data();
    EXPECT_STREQ(kernels::atss_cuda(a, nullptr), nullptr);
    EXPECT_EQ(cells.unwritten_count() + thresholds.unwritten_count(), 0U);
  }

  void expect_same_matches() const {
    const std::size_t count = (offsets.size() - 1) * anchors.size() / 4;
    const DeviceArray<T> best(Content::kState, Zeros{count});
    const DeviceArray<std::int64_t> found(Content::kState,
                                          std::vector<std::int64_t>(count, kBackground));
    run(best, found);
    std::vector<std::int64_t> expected(count, kBackground);
    compute(arguments(nullptr, expected.data()));
    expect_same_bits(found, expected, "match");
  }
};

// Levels of less than 9 cells, one row or column, and many cells.
const std::vector<Grid> kGrids = {{26, 30, 8}, {13, 15, 16}, {7, 1, 32}, {1, 31, 8}, {2, 2, 64}};

TEST_F(EmulatedAtss, MatchesAsTheCpuForAnyCounts) {
  for (const std::int64_t box_count : {0, 1, 7, 60, 300}) {
    SCOPED_TRACE(box_count);
    const std::int64_t most = box_count - box_count / 7;
    Case<float>(kGrids, 9, {0, 0, most, most, box_count}).expect_same_matches();
    Case<double>(kGrids, 9, {0, most, most, box_count}).expect_same_matches();
  }
  Case<float>({{1, 1, 64}}, 9, {0, 5}).expect_same_matches();
  Case<float>(std::vector<Grid>(kernels::kMaxLevels, {3, 4, 64}), 9, {0, 9}).expect_same_matches();
  Case<float>(kGrids, 9, {0}).expect_same_matches();  // no image
}

TEST_F(EmulatedAtss, TakesThousandsOfBoxesInAnImage) {
  Case<float>(kGrids, 9, {0, 3, 2003}).expect_same_matches();
}

TEST_F(EmulatedAtss, CountsBeyond31Bits) {
  const std::vector<Grid> grids = {{60, 61, 4}, {2, 2, 64}};
  constexpr std::int64_t kBoxes = 3, kAnchors = 9 * (60 * 61 + 4);
  const std::int64_t image_count = images_beyond_31_bits(kAnchors);
  const auto matches_in = [&](std::int64_t images) {
    std::vector<std::int64_t> image_offsets(static_cast<std::size_t>(images) + 1);
    image_offsets.back() = kBoxes;
    const Case<float> one(grids, 9, image_offsets);
    const auto count = static_cast<std::size_t>(images * kAnchors);
    const DeviceArray<float> best(Content::kState, Zeros{count});
    const DeviceArray<std::int64_t> found(Content::kState, Zeros{count});
    copy_to_end(std::vector<std::int64_t>(kAnchors, kBackground), found);
    one.run(best, found);
    return std::vector<std::int64_t>(found.data() + count - kAnchors, found.data() + count);
  };
  EXPECT_EQ(matches_in(image_count), matches_in(1));
}

}  // namespace
}  // namespace retina::emulation
