#include "shared/image/warp.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>

#include "shared/base/error.h"
#include "shared/image/resample.h"

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
  ImageRow row{.width = image.width, .height = image.height, .fills = warp.fill == Fill::kConstant};
  const Affine source_of = pixel_matrix(warp, {.from = {image.width, image.height},
                                               .to = {target.width, target.height},
                                               .flip = target.flip});
  std::copy(source_of.m.begin(), source_of.m.end(), row.source_of);
  std::copy(warp.colour.m.begin(), warp.colour.m.end(), row.colour);
  ChannelStatistics statistics;
  std::copy_n(normalisation.mean.begin(), 3, statistics.mean);
  std::copy_n(normalisation.std.begin(), 3, statistics.std);
  for (int y = 0; y < target.height; ++y) {
    float* to = out + y * target.row_stride;
    for (int x = 0; x < target.width; ++x, ++to) {
      std::array<float, 3> rgb{};
      warped_pixel(image.rgb.data(), row, statistics, x, y, rgb.data());
      for (std::int64_t c = 0; c < 3; ++c) {
        to[c * target.plane_stride] = rgb[static_cast<std::size_t>(c)];
      }
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
