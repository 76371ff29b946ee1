#include "shared/image/warp.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <vector>

#include "shared/base/error.h"

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

// The cofactors over the determinant.
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

// Pixel centres of a picture to fractions of its sides.
Affine fraction_of(const ImageSize& size) {
  return {{1.0 / size.width, 0, 0.5 / size.width, 0, 1.0 / size.height, 0.5 / size.height}};
}

constexpr Affine kMirror = {{-1, 0, 1, 0, 1, 0}};

// One row of the output, a stage at a time so that the arithmetic vectorises: where each pixel
// samples the source, the samples in units of [0, 1], and what becomes of them.
class RowWarp {
 public:
  RowWarp(const Image& image, const Affine& source_of, Fill fill, std::size_t width)
      : image_(image),
        source_of_(source_of),
        fill_(fill),
        width_(width),
        places_(width),
        rgb_(3 * width),
        shown_(width, 1.0F) {
    for (std::size_t v = 0; v < 256; ++v) levels_[v] = static_cast<float>(v) / 255.0F;
  }

  void sample(int y) {
    place(y);
    const std::size_t row_bytes = static_cast<std::size_t>(image_.width) * 3;
    float* const red = rgb_.data();
    float* const green = red + width_;
    float* const blue = green + width_;
    for (std::size_t x = 0; x < width_; ++x) {
      const Place& at = places_[x];
      const std::uint8_t* const upper = image_.rgb.data() +
                                        static_cast<std::size_t>(at.y) * row_bytes +
                                        static_cast<std::size_t>(at.x) * 3;
      const std::uint8_t* const lower = upper + (at.y + 1 < image_.height ? row_bytes : 0);
      const std::size_t right = at.x + 1 < image_.width ? 3 : 0;
      const float upper_right = (1 - at.weight_y) * at.weight_x;
      const float upper_left = (1 - at.weight_y) - upper_right;
      const float lower_right = at.weight_y * at.weight_x;
      const float lower_left = at.weight_y - lower_right;
      const auto blend = [&](std::size_t c) {
        return (upper_left * levels_[upper[c]] + upper_right * levels_[upper[right + c]]) +
               (lower_left * levels_[lower[c]] + lower_right * levels_[lower[right + c]]);
      };
      red[x] = blend(0);
      green[x] = blend(1);
      blue[x] = blend(2);
    }
  }

  // The samples' channel c, recoloured and normalised.
  void put(const ColourMatrix& colour, const Normalisation& normalisation, std::size_t c,
           float* out) const {
    const float* const row = colour.m.data() + 4 * c;
    const float of_red = row[0], of_green = row[1], of_blue = row[2], added = row[3];
    const float mean = normalisation.mean[c], scale = 1 / normalisation.std[c];
    const float* const red = rgb_.data();
    const float* const green = red + width_;
    const float* const blue = green + width_;
    for (std::size_t x = 0; x < width_; ++x) {
      const float value = of_red * red[x] + of_green * green[x] + of_blue * blue[x] + added;
      out[x] = (std::clamp(value, 0.0F, 1.0F) - mean) * scale * shown_[x];
    }
  }

 private:
  // The upper left of the four source pixels, and the weights of the right and lower ones.
  struct Place {
    std::int32_t x = 0, y = 0;
    float weight_x = 0, weight_y = 0;
  };

  void place(int y) {
    const double right = image_.width - 1, bottom = image_.height - 1;
    for (std::size_t x = 0; x < width_; ++x) {
      const auto [at_x, at_y] = source_of_(static_cast<double>(x), y);
      const double inside_x = std::clamp(at_x, 0.0, right);
      const double inside_y = std::clamp(at_y, 0.0, bottom);
      Place& to = places_[x];
      to.x = static_cast<std::int32_t>(inside_x);
      to.y = static_cast<std::int32_t>(inside_y);
      to.weight_x = static_cast<float>(inside_x - to.x);
      to.weight_y = static_cast<float>(inside_y - to.y);
      if (fill_ == Fill::kConstant) {
        const bool is_outside = std::abs(at_x - inside_x) > 0.5 || std::abs(at_y - inside_y) > 0.5;
        shown_[x] = is_outside ? 0.0F : 1.0F;
      }
    }
  }

  const Image& image_;
  Affine source_of_;
  Fill fill_;
  std::size_t width_;
  std::vector<Place> places_;
  std::array<float, 256> levels_{};  // of every byte
  std::vector<float> rgb_;           // [3, width]
  std::vector<float> shown_;         // 0 where the pixel is filled, else 1
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
  RowWarp row(image, source_of, warp.fill, static_cast<std::size_t>(target.width));
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
