#include "shared/image/warp.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numbers>
#include <optional>
#include <vector>

#include "shared/base/error.h"
#include "shared/image/lanes.h"

namespace retina {
namespace {

using Matrix3 = std::array<std::array<double, 3>, 3>;

Matrix3 product(const Matrix3& a, const Matrix3& b) {
  Matrix3 result{};
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      for (std::size_t k = 0; k < 3; ++k) result[i][j] += a[i][k] * b[k][j];
    }
  }
  return result;
}

// Returns the cofactors over the determinant.
Matrix3 inverse(const Matrix3& a) {
  Matrix3 result{};
  double determinant = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      const std::size_t r1 = (j + 1) % 3, r2 = (j + 2) % 3, c1 = (i + 1) % 3, c2 = (i + 2) % 3;
      result[i][j] = a[r1][c1] * a[r2][c2] - a[r1][c2] * a[r2][c1];
    }
    determinant += a[0][i] * result[i][0];
  }
  for (auto& row : result) {
    for (double& value : row) value /= determinant;
  }
  return result;
}

constexpr Matrix3 kYiqOfRgb = {
    {{0.299, 0.587, 0.114}, {0.596, -0.274, -0.322}, {0.211, -0.523, 0.312}}};

// Returns the map from pixel centres of an image to fractions of its sides.
Affine fraction_of(const ImageSize& size) {
  return {{1.0 / size.width, 0, 0.5 / size.width, 0, 1.0 / size.height, 0.5 / size.height}};
}

constexpr Affine kMirror = {{-1, 0, 1, 0, 1, 0}};

using Levels = std::array<float, 256>;  // of every byte, in [0, 1]

Levels make_levels() {
  Levels levels{};
  for (std::size_t v = 0; v < levels.size(); ++v) levels[v] = static_cast<float>(v) / 255.0F;
  return levels;
}

Pixel pixel_of(const std::uint8_t* bytes, const Levels& levels) {
  return {Lanes{levels[bytes[0]], levels[bytes[1]], levels[bytes[2]], 0.0F}};
}

// Holds source rows converted to levels, the last column twice: the edge continues beyond the
// image. As many at a time as a row of the output meets.
class LevelRows {
 public:
  LevelRows(const Image& image, int count)
      : image_(image),
        levels_(make_levels()),
        stride_(static_cast<std::size_t>(image.width) + 1),
        pixels_(static_cast<std::size_t>(count) * stride_),
        held_(static_cast<std::size_t>(count), -1),
        rows_(static_cast<std::size_t>(image.height) + 1) {}

  // Returns rows; row y is at [y], for first <= y <= last + 1: the last row of the image is
  // repeated below it.
  const Pixel* const* hold(int first, int last) {
    for (int y = first; y <= std::min(last + 1, image_.height - 1); ++y) {
      const std::size_t place = static_cast<std::size_t>(y) % held_.size();
      if (held_[place] != y) fill(y, place);
    }
    return rows_.data();
  }

 private:
  void fill(int y, std::size_t place) {
    Pixel* const row = pixels_.data() + place * stride_;
    const std::uint8_t* bytes = image_.pixel(0, y);
    for (std::size_t x = 0; x + 1 < stride_; ++x, bytes += 3) row[x] = pixel_of(bytes, levels_);
    row[stride_ - 1] = row[stride_ - 2];
    held_[place] = y;
    const auto at = static_cast<std::size_t>(y);
    rows_[at] = row;
    if (y == image_.height - 1) rows_[at + 1] = row;
  }

  const Image& image_;
  Levels levels_;
  std::size_t stride_;
  std::vector<Pixel> pixels_;
  std::vector<int> held_;           // the row in each place
  std::vector<const Pixel*> rows_;  // the last place of each row
};

// Returns the most source rows that a row of the output meets: those that it crosses, the one
// below, and one for rounding.
int rows_met(const Image& image, const Affine& source_of, std::size_t width) {
  const double crossed = std::abs(source_of.m[3]) * static_cast<double>(width - 1);
  return static_cast<int>(std::min<double>(image.height, std::ceil(crossed) + 3));
}

using Doubles = double __attribute__((vector_size(16)));
using Floats = float __attribute__((vector_size(8)));
using Ints = std::int32_t __attribute__((vector_size(8)));

// Sample places of a row's pixels along one axis of the source: the first of two source pixels, and
// the weight of the second.
struct Places {
  explicit Places(std::size_t room) : first(room), weight(room) {}
  std::vector<std::int32_t> first;
  std::vector<float> weight;
};

// Computes one row of the output, a stage at a time so that the arithmetic vectorises: the places
// where pixels sample the source, the samples in units of [0, 1], and the results.
class RowWarp {
 public:
  RowWarp(const Image& image, const Affine& source_of, Fill fill, const ImageSize& size)
      : image_(image),
        source_of_(source_of),
        fill_(fill),
        width_(static_cast<std::size_t>(size.width)),
        room_(whole_lanes(size.width)),
        levels_(make_levels()),
        steps_x_(room_),
        steps_y_(room_),
        places_x_(room_),
        places_y_(room_),
        rgb_(3 * room_),
        shown_(room_, 1.0F) {
    for (std::size_t x = 0; x < room_; ++x) {
      const auto column = static_cast<double>(std::min(x, width_ - 1));
      steps_x_[x] = source_of.m[0] * column;
      steps_y_[x] = source_of.m[3] * column;
    }
    // Worth it unless most source pixels are skipped.
    if (std::int64_t{image.width} * image.height <= std::int64_t{2} * size.width * size.height) {
      rows_.emplace(image, rows_met(image, source_of, width_));
    }
  }

  void sample(int y) {
    const auto& m = source_of_.m;
    std::fill(shown_.begin(), shown_.end(), 1.0F);
    place(steps_x_, m[1] * y, m[2], image_.width, places_x_);
    place(steps_y_, m[4] * y, m[5], image_.height, places_y_);
    if (rows_) {
      const auto [low, high] = std::minmax(places_y_.first.front(), places_y_.first.back());
      const Pixel* const* const rows = rows_->hold(low, high);
      blend([rows](std::int32_t row, std::int32_t column) { return rows[row][column].rgb; });
    } else {
      blend([this](std::int32_t row, std::int32_t column) {
        return pixel_of(image_.pixel(std::min(column, image_.width - 1),
                                     std::min(row, image_.height - 1)),
                        levels_)
            .rgb;
      });
    }
  }

  // Writes the samples' channel c, recoloured and normalised.
  void put(const ColourMatrix& colour, const Normalisation& normalisation, std::size_t c,
           float* out) const {
    const float* const row = colour.m.data() + 4 * c;
    const float of_red = row[0], of_green = row[1], of_blue = row[2], added = row[3];
    const float mean = normalisation.mean[c], scale = 1 / normalisation.std[c];
    const float* const red = rgb_.data();
    const float* const green = red + room_;
    const float* const blue = green + room_;
    for (std::size_t x = 0; x < width_; ++x) {
      const float value = of_red * red[x] + of_green * green[x] + of_blue * blue[x] + added;
      out[x] = (std::clamp(value, 0.0F, 1.0F) - mean) * scale * shown_[x];
    }
  }

 private:
  // Computes the places (steps[x] + across) + offset, clamped to the `side` of the source.
  void place(const std::vector<double>& steps, double across, double offset, int side,
             Places& places) {
    const bool fills = fill_ == Fill::kConstant;
    const Doubles zero{}, last = zero + (side - 1.0);
    const double* const step = steps.data();
    std::int32_t* __restrict const first = places.first.data();
    float* __restrict const weight = places.weight.data();
    float* __restrict const shown = shown_.data();
    for (std::size_t x = 0; x < room_; x += 2) {
      Doubles at;
      std::memcpy(&at, step + x, sizeof at);
      at = (at + across) + offset;
      if (fills) {
        Ints bits;
        std::memcpy(&bits, shown + x, sizeof bits);
        bits &= __builtin_convertvector((at >= zero - 0.5) & (at <= last + 0.5), Ints);
        std::memcpy(shown + x, &bits, sizeof bits);
      }
      at = at > zero ? at : zero;
      at = at < last ? at : last;
      const Ints whole = __builtin_convertvector(at, Ints);
      const Floats rest =
          __builtin_convertvector(at - __builtin_convertvector(whole, Doubles), Floats);
      std::memcpy(first + x, &whole, sizeof whole);
      std::memcpy(weight + x, &rest, sizeof rest);
    }
  }

  // Blends the four source pixels of each place.
  template <class PixelAt>
  void blend(const PixelAt& pixel_at) {
    for (std::size_t from = 0; from < room_; from += kLanes) {
      const Lanes right = load(places_x_.weight.data() + from);
      const Lanes lower = load(places_y_.weight.data() + from);
      const Lanes upper_right = (1 - lower) * right, upper_left = (1 - lower) - upper_right;
      const Lanes lower_right = lower * right, lower_left = lower - lower_right;
      const auto at = [&](std::size_t i) {
        const std::int32_t x = places_x_.first[from + i], y = places_y_.first[from + i];
        return (upper_left[i] * pixel_at(y, x) + upper_right[i] * pixel_at(y, x + 1)) +
               (lower_left[i] * pixel_at(y + 1, x) + lower_right[i] * pixel_at(y + 1, x + 1));
      };
      store_planes({at(0), at(1), at(2), at(3)}, rgb_.data() + from, room_);
    }
  }

  const Image& image_;
  Affine source_of_;
  Fill fill_;
  std::size_t width_, room_;  // room: in whole lanes
  Levels levels_;
  std::optional<LevelRows> rows_{};
  std::vector<double> steps_x_, steps_y_;  // along a row, to the source
  Places places_x_, places_y_;
  std::vector<float> rgb_;    // [3, room]
  std::vector<float> shown_;  // 0 for filled pixels, else 1
};

}  // namespace

Affine composed(const Affine& second, const Affine& first) {
  const auto& a = second.m;
  const auto& b = first.m;
  return {{a[0] * b[0] + a[1] * b[3], a[0] * b[1] + a[1] * b[4], a[0] * b[2] + a[1] * b[5] + a[2],
           a[3] * b[0] + a[4] * b[3], a[3] * b[1] + a[4] * b[4], a[3] * b[2] + a[4] * b[5] + a[5]}};
}

Affine inverse(const Affine& affine) {
  const auto& m = affine.m;
  const double determinant = m[0] * m[4] - m[1] * m[3];
  RETINA_CHECK(determinant != 0);
  const double a = m[4] / determinant, b = -m[1] / determinant;
  const double c = -m[3] / determinant, d = m[0] / determinant;
  return {{a, b, -(a * m[2] + b * m[5]), c, d, -(c * m[2] + d * m[5])}};
}

ColourMatrix colour_matrix(const ColourChange& change) {
  const double angle = 2 * std::numbers::pi * change.hue;
  const double along = change.saturation * std::cos(angle);
  const double across = change.saturation * std::sin(angle);
  const Matrix3 turn = {{{1, 0, 0}, {0, along, -across}, {0, across, along}}};
  const Matrix3 linear = product(inverse(kYiqOfRgb), product(turn, kYiqOfRgb));
  ColourMatrix result;
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t k = 0; k < 3; ++k) {
      result.m[4 * c + k] = static_cast<float>(change.contrast * linear[c][k]);
    }
    result.m[4 * c + 3] = static_cast<float>(0.5 * (1 - change.contrast) + change.brightness);
  }
  return result;
}

Affine pixel_matrix(const Warp& warp, const WarpSizes& sizes) {
  const Affine source_of = sizes.flip ? composed(kMirror, warp.source_of) : warp.source_of;
  return composed(inverse(fraction_of(sizes.from)), composed(source_of, fraction_of(sizes.to)));
}

void warp_normalise(const Image& image, const ResizeTarget& target, const Warp& warp,
                    const Normalisation& normalisation, float* out) {
  RETINA_CHECK(image.width > 0 && image.height > 0 && target.width > 0 && target.height > 0);
  RETINA_CHECK(target.row_stride >= target.width);
  const Affine source_of = pixel_matrix(warp, {.from = {image.width, image.height},
                                               .to = {target.width, target.height},
                                               .flip = target.flip});
  RowWarp row(image, source_of, warp.fill, {target.width, target.height});
  for (int y = 0; y < target.height; ++y) {
    row.sample(y);
    for (std::size_t c = 0; c < 3; ++c) {
      float* const to =
          out + static_cast<std::int64_t>(c) * target.plane_stride + y * target.row_stride;
      row.put(warp.colour, normalisation, c, to);
    }
  }
}

std::array<double, 4> warped_hull(const std::array<float, 4>& box, const Warp& warp,
                                  const WarpSizes& sizes) {
  // Box corners lie on pixel edges, half a pixel off the centres.
  const Affine to_output = inverse(pixel_matrix(warp, sizes));
  std::array<double, 4> hull{};
  for (std::size_t corner = 0; corner < 4; ++corner) {
    const auto [centre_x, centre_y] = to_output(static_cast<double>(box[corner % 2 * 2]) - 0.5,
                                                static_cast<double>(box[corner / 2 * 2 + 1]) - 0.5);
    const double x = centre_x + 0.5, y = centre_y + 0.5;
    hull = corner == 0 ? std::array<double, 4>{x, y, x, y}
                       : std::array<double, 4>{std::min(hull[0], x), std::min(hull[1], y),
                                               std::max(hull[2], x), std::max(hull[3], y)};
  }
  return hull;
}

}  // namespace retina
