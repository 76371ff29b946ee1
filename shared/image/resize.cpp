#include "shared/image/resize.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "shared/base/error.h"

namespace retina {
namespace {

// Per output column or row: the two source places and their weights.
struct Taps {
  std::vector<std::int32_t> first{}, second{};
  std::vector<float> first_weight{}, second_weight{};
};

// The rounding of ATen's CPU kernel (UpSampleKernel.cpp), which is compiled with fused
// multiply-add: at 640 pixels one unit in the last place of the coordinate is 6e-5 of a pixel.
Taps make_taps(int from, int to, bool flip) {
  Taps taps;
  const auto count = static_cast<std::size_t>(to);
  taps.first.resize(count);
  taps.second.resize(count);
  taps.first_weight.resize(count);
  taps.second_weight.resize(count);
  const float scale = static_cast<float>(from) / static_cast<float>(to);
  for (int i = 0; i < to; ++i) {
    int first = i;
    float fraction = 0;
    if (from != to) {
      const float source = std::max(0.0F, std::fma(scale, static_cast<float>(i) + 0.5F, -0.5F));
      first = std::min(static_cast<int>(source), from - 1);
      fraction = std::clamp(source - static_cast<float>(first), 0.0F, 1.0F);
    }
    const auto place = static_cast<std::size_t>(flip ? to - 1 - i : i);
    taps.first[place] = first;
    taps.second[place] = std::min(first + 1, from - 1);
    taps.first_weight[place] = 1.0F - fraction;
    taps.second_weight[place] = fraction;
  }
  return taps;
}

// (v / 255 - mean) / std for every byte v, in the reference's order of f32 operations.
std::array<std::array<float, 256>, 3> make_levels(const Normalisation& normalisation) {
  std::array<std::array<float, 256>, 3> levels{};
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t v = 0; v < 256; ++v) {
      levels[c][v] =
          (static_cast<float>(v) / 255.0F - normalisation.mean[c]) / normalisation.std[c];
    }
  }
  return levels;
}

// Source rows, normalised and resized along x; remembers the last two.
class RowSource {
 public:
  RowSource(const Image& image, const ResizeTarget& target, const Normalisation& normalisation)
      : image_(image),
        taps_(make_taps(image.width, target.width, target.flip)),
        levels_(make_levels(normalisation)),
        width_(static_cast<std::size_t>(target.width)),
        planes_(static_cast<std::size_t>(image.width) * 3) {
    for (auto& row : rows_) row.resize(width_ * 3);
  }

  // [3, width] of source row y. The pointer is valid until the row after the next is asked for.
  const float* row(int y) {
    for (std::size_t i = 0; i < 2; ++i) {
      if (held_[i] == y) {
        oldest_ = 1 - i;
        return rows_[i].data();
      }
    }
    const std::size_t slot = oldest_;
    oldest_ = 1 - slot;
    held_[slot] = y;
    fill(y, rows_[slot].data());
    return rows_[slot].data();
  }

 private:
  void fill(int y, float* out) {
    const auto from_width = static_cast<std::size_t>(image_.width);
    const std::uint8_t* pixels = image_.pixel(0, y);
    float* const red = planes_.data();
    float* const green = red + from_width;
    float* const blue = green + from_width;
    for (std::size_t x = 0; x < from_width; ++x, pixels += 3) {
      red[x] = levels_[0][pixels[0]];
      green[x] = levels_[1][pixels[1]];
      blue[x] = levels_[2][pixels[2]];
    }
    const std::int32_t* const first = taps_.first.data();
    const std::int32_t* const second = taps_.second.data();
    const float* const first_weight = taps_.first_weight.data();
    const float* const second_weight = taps_.second_weight.data();
    for (std::size_t c = 0; c < 3; ++c) {
      const float* const plane = planes_.data() + c * from_width;
      float* const row = out + c * width_;
      for (std::size_t x = 0; x < width_; ++x) {
        row[x] = first_weight[x] * plane[first[x]] + second_weight[x] * plane[second[x]];
      }
    }
  }

  const Image& image_;
  Taps taps_;
  std::array<std::array<float, 256>, 3> levels_;
  std::size_t width_;
  std::vector<float> planes_;               // one source row, [3, image width]
  std::array<std::vector<float>, 2> rows_;  // [3, width] each
  std::array<int, 2> held_{-1, -1};
  std::size_t oldest_ = 0;
};

}  // namespace

ResizedSize resized_size(int width, int height, int min_side_px, int max_side_px) {
  RETINA_CHECK(width > 0 && height > 0 && min_side_px > 0 && max_side_px > 0);
  const double scale =
      std::min(static_cast<double>(min_side_px) / static_cast<double>(std::min(width, height)),
               static_cast<double>(max_side_px) / static_cast<double>(std::max(width, height)));
  const auto side = [scale](int from) {
    return std::max(1, static_cast<int>(std::floor(static_cast<double>(from) * scale)));
  };
  return {.width = side(width), .height = side(height), .scale = scale};
}

void resize_normalise(const Image& image, const ResizeTarget& target,
                      const Normalisation& normalisation, float* out) {
  RETINA_CHECK(image.width > 0 && image.height > 0 && target.width > 0 && target.height > 0);
  RETINA_CHECK(target.row_stride >= target.width);
  const Taps taps = make_taps(image.height, target.height, false);
  RowSource rows(image, target, normalisation);
  const auto width = static_cast<std::size_t>(target.width);
  for (int y = 0; y < target.height; ++y) {
    const auto place = static_cast<std::size_t>(y);
    const float* const upper = rows.row(taps.first[place]);
    const float* const lower = rows.row(taps.second[place]);
    const float upper_weight = taps.first_weight[place];
    const float lower_weight = taps.second_weight[place];
    for (int c = 0; c < 3; ++c) {
      const std::size_t channel = static_cast<std::size_t>(c) * width;
      float* const row = out + c * target.plane_stride + y * target.row_stride;
      for (std::size_t x = 0; x < width; ++x) {
        row[x] = upper_weight * upper[channel + x] + lower_weight * lower[channel + x];
      }
    }
  }
}

std::array<float, 4> resize_box(const std::array<float, 4>& box, const ImageSize& from,
                                const ImageSize& to) {
  const float x = static_cast<float>(to.width) / static_cast<float>(from.width);
  const float y = static_cast<float>(to.height) / static_cast<float>(from.height);
  return {box[0] * x, box[1] * y, box[2] * x, box[3] * y};
}

}  // namespace retina
