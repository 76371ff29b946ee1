// Arithmetic of adaptive training sample selection (atss.h) that CPUs and GPUs share. Read by nvcc
// too.
#pragma once

#include "shared/ops/formulas.h"
#include "shared/ops/kernels.h"

namespace retina::kernels {

constexpr double kAtssInsidePx = 0.01;
// A box's sums have so many lanes, added as tree_sum() does: the same bits everywhere.
constexpr int kAtssLanes = 128;

template <class T>
RETINA_HOST_DEVICE T centre_of(const T* box, int axis) {
  return (box[axis] + box[2 + axis]) * T(0.5);
}
template <class T>
RETINA_HOST_DEVICE T square(T x) {
  return x * x;
}

// Cells of a row, or rows of a grid: `begin` to `end` - 1.
struct AtssWindow {
  std::int32_t begin, end;
};

// At least 2 reach + 1 of `count` cells, or all, around `place`; the centres of cells 0 and 1 are
// at `first` and `second`.
template <class T>
RETINA_HOST_DEVICE AtssWindow window_around(T place, T first, T second, std::int32_t count,
                                            std::int32_t reach) {
  const std::int64_t width = smaller<std::int64_t>(count, 2 * std::int64_t{reach} + 1);
  const T nearest = larger(T(0), smaller((place - first) / (second - first), T(count - 1)));
  const std::int64_t begin = static_cast<std::int64_t>(nearest + T(0.5)) - reach;
  const auto kept = static_cast<std::int32_t>(
      larger<std::int64_t>(0, smaller<std::int64_t>(begin, count - width)));
  return {kept, static_cast<std::int32_t>(kept + width)};
}

// The nearest of the cells that were offered, by distance; of equal ones the first offered.
template <class T>
struct NearestCells {
  T distances[kAtssCells];
  std::int32_t cells[kAtssCells];
  int count = 0;

  RETINA_HOST_DEVICE void offer(T distance, std::int32_t cell) {
    if (count == kAtssCells && !(distance < distances[kAtssCells - 1])) return;
    int place = count < kAtssCells ? count++ : kAtssCells - 1;
    for (; place > 0 && distance < distances[place - 1]; --place) {
      distances[place] = distances[place - 1];
      cells[place] = cells[place - 1];
    }
    distances[place] = distance;
    cells[place] = cell;
  }
};

// Writes the kAtssCells cells of a level nearest to the box's centre to `cells`, -1 where it has
// fewer. Looks at a window of the grid that grows until all beyond it is farther: distances to rows
// and to columns grow away from the centre, rounded as they are.
template <class T>
RETINA_HOST_DEVICE void find_nearest_cells(const Atss<T>& a, const AtssLevel& level, const T* box,
                                           std::int32_t* cells) {
  const T* const anchors = a.anchors + 4 * level.first_anchor;
  const T x = centre_of(box, 0), y = centre_of(box, 1);
  // Squared distances of a column's and of a row's centre.
  const auto at_column = [&](std::int32_t column) {
    return square(centre_of(anchors + 4 * a.anchors_per_cell * column, 0) - x);
  };
  const auto at_row = [&](std::int32_t row) {
    return square(centre_of(anchors + 4 * a.anchors_per_cell * level.columns * row, 1) - y);
  };
  const std::int64_t second_column = level.columns > 1 ? a.anchors_per_cell : 0;
  const std::int64_t second_row = level.rows > 1 ? a.anchors_per_cell * level.columns : 0;
  for (std::int32_t reach = 2;; reach *= 2) {
    const AtssWindow columns = window_around(
        x, centre_of(anchors, 0), centre_of(anchors + 4 * second_column, 0), level.columns, reach);
    const AtssWindow rows = window_around(
        y, centre_of(anchors, 1), centre_of(anchors + 4 * second_row, 1), level.rows, reach);
    NearestCells<T> nearest;
    T least_column = at_column(columns.begin), least_row = at_row(rows.begin);
    for (std::int32_t row = rows.begin; row < rows.end; ++row) {
      const T of_row = at_row(row);
      least_row = smaller(least_row, of_row);
      for (std::int32_t column = columns.begin; column < columns.end; ++column) {
        const T of_column = at_column(column);
        least_column = smaller(least_column, of_column);
        nearest.offer(of_column + of_row, row * level.columns + column);
      }
    }
    const T farthest = nearest.distances[nearest.count - 1];
    const bool is_full = nearest.count == kAtssCells;
    const auto is_farther = [&](T distance) { return is_full && distance > farthest; };
    const bool is_whole =
        (columns.begin == 0 || is_farther(at_column(columns.begin - 1) + least_row)) &&
        (columns.end == level.columns || is_farther(at_column(columns.end) + least_row)) &&
        (rows.begin == 0 || is_farther(at_row(rows.begin - 1) + least_column)) &&
        (rows.end == level.rows || is_farther(at_row(rows.end) + least_column));
    if (!is_whole) continue;
    for (int i = 0; i < kAtssCells; ++i) cells[i] = i < nearest.count ? nearest.cells[i] : -1;
    return;
  }
}

// Returns the number of candidates that a box has.
template <class T>
RETINA_HOST_DEVICE std::int64_t candidate_count(const Atss<T>& a) {
  std::int64_t cells = 0;
  for (int i = 0; i < a.level_count; ++i) {
    const std::int64_t of_level = std::int64_t{a.levels[i].rows} * a.levels[i].columns;
    cells += smaller<std::int64_t>(of_level, kAtssCells);
  }
  return cells * a.anchors_per_cell;
}
// Returns the number of places for a box's candidates, those that stay empty too.
template <class T>
RETINA_HOST_DEVICE int candidate_places(const Atss<T>& a) {
  return static_cast<int>(a.level_count * kAtssCells * a.anchors_per_cell);
}

// The anchor at one of these places, or -1; `cells` [level_count, kAtssCells] are the box's.
template <class T>
RETINA_HOST_DEVICE std::int64_t candidate_at(const Atss<T>& a, const std::int32_t* cells,
                                             int place) {
  const int per_cell = static_cast<int>(a.anchors_per_cell), cell = place / per_cell;
  if (cells[cell] < 0) return -1;
  return a.levels[cell / kAtssCells].first_anchor + cells[cell] * a.anchors_per_cell +
         place % per_cell;
}

// Returns true if the centre of the anchor's cell is more than kAtssInsidePx inside the box.
template <class T>
RETINA_HOST_DEVICE bool is_centred_inside(const Atss<T>& a, std::int64_t anchor, const T* box) {
  const T* const first = a.anchors + 4 * (anchor - anchor % a.anchors_per_cell);
  const T x = centre_of(first, 0), y = centre_of(first, 1), least = static_cast<T>(kAtssInsidePx);
  return x - box[0] > least && y - box[1] > least && box[2] - x > least && box[3] - y > least;
}

// mean + standard deviation; of one value, itself.
RETINA_HOST_DEVICE double atss_threshold(double mean, double squares, std::int64_t count) {
  return count > 1 ? mean + std::sqrt(squares / static_cast<double>(count - 1)) : mean;
}

}  // namespace retina::kernels
