#include "shared/image/resize.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#include "shared/base/error.h"
#include "shared/image/resample.h"

namespace retina {
namespace {

// Four f32 in one register of any x86-64 or AArch64 (GCC's and clang's vector extension). Each lane
// computes the same as plain f32: the build forbids contraction to fused multiply-adds.
using Lanes = float __attribute__((vector_size(16)));
constexpr std::size_t kLanes = 4;

std::size_t whole_lanes(int count) {
  return (static_cast<std::size_t>(count) + kLanes - 1) / kLanes * kLanes;
}

void store(const Lanes& lanes, float* out) {
  std::memcpy(out, &lanes, sizeof lanes);
}

struct Pixel {
  Lanes rgb;  // the fourth lane is unused
};

// Stores four pixels as four values of each channel, `plane_stride` floats apart.
void store_planes(const std::array<Lanes, 4>& pixels, float* out, std::size_t plane_stride) {
  const auto& [a, b, c, d] = pixels;
  const Lanes red_green_ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Lanes red_green_cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Lanes blue_ab = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Lanes blue_cd = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  store(__builtin_shufflevector(red_green_ab, red_green_cd, 0, 1, 4, 5), out);
  store(__builtin_shufflevector(red_green_ab, red_green_cd, 2, 3, 6, 7), out + plane_stride);
  store(__builtin_shufflevector(blue_ab, blue_cd, 0, 1, 4, 5), out + 2 * plane_stride);
}

// Tap of an output column or row: the source place `first`, and the weights of it and of the next.
struct WeightedTap {
  std::int32_t first = 0;
  float first_weight = 0, second_weight = 0;
};

// Makes the taps; the last one is repeated up to `room` of them.
std::vector<WeightedTap> make_taps(int from, int to, bool flip, std::size_t room) {
  std::vector<WeightedTap> taps(room);
  for (int i = 0; i < to; ++i) {
    const Tap tap = resize_tap(i, from, to);
    taps[static_cast<std::size_t>(flip ? to - 1 - i : i)] = {tap.first, 1.0F - tap.fraction,
                                                             tap.fraction};
  }
  std::fill(taps.begin() + to, taps.end(), taps[static_cast<std::size_t>(to) - 1]);
  return taps;
}

// Returns the normalised value of every byte.
std::array<std::array<float, 256>, 3> make_levels(const Normalisation& normalisation) {
  ChannelStatistics statistics;
  std::copy_n(normalisation.mean.begin(), 3, statistics.mean);
  std::copy_n(normalisation.std.begin(), 3, statistics.std);
  std::array<std::array<float, 256>, 3> levels{};
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t v = 0; v < 256; ++v) {
      levels[c][v] = normalised(static_cast<std::uint8_t>(v), statistics, static_cast<int>(c));
    }
  }
  return levels;
}

constexpr std::size_t kCacheLine = 16;  // floats

// Rows of the target's red plane that are written next.
using NextRows = std::array<const float*, 2>;

// Resizes normalised source rows along x; remembers the last two.
class RowSource {
 public:
  RowSource(const Image& image, const ResizeTarget& target, const Normalisation& normalisation)
      : image_(image),
        plane_stride_(target.plane_stride),
        stride_(whole_lanes(target.width)),
        taps_(make_taps(image.width, target.width, target.flip, stride_)),
        levels_(make_levels(normalisation)),
        pixels_(static_cast<std::size_t>(image.width) + 1) {
    for (auto& row : rows_) row.resize(stride_ * 3);
  }

  std::size_t stride() const { return stride_; }

  // Returns [3, stride] of source row y. The pointer is valid until the row after the next is
  // requested. Writing waits for memory, computing does not: while a row is computed, the two rows
  // of the target that are written next are fetched.
  const float* row(int y, const NextRows& next) {
    for (std::size_t i = 0; i < 2; ++i) {
      if (held_[i] == y) {
        oldest_ = 1 - i;
        return rows_[i].data();
      }
    }
    const std::size_t slot = oldest_;
    oldest_ = 1 - slot;
    held_[slot] = y;
    fill(y, next, rows_[slot].data());
    return rows_[slot].data();
  }

 private:
  void fill(int y, const NextRows& next, float* out) {
    // Normalised pixels, the last one twice: the edge continues beyond the image.
    const auto from_width = static_cast<std::size_t>(image_.width);
    const std::uint8_t* bytes = image_.pixel(0, y);
    for (std::size_t x = 0; x < from_width; ++x, bytes += 3) {
      pixels_[x].rgb =
          Lanes{levels_[0][bytes[0]], levels_[1][bytes[1]], levels_[2][bytes[2]], 0.0F};
    }
    pixels_[from_width] = pixels_[from_width - 1];
    // Computes four output pixels at a time, then turns them into four values of each channel.
    const Pixel* const pixels = pixels_.data();
    const auto at = [&](std::size_t x) {
      const WeightedTap& tap = taps_[x];
      const Pixel* const pixel = pixels + tap.first;
      return tap.first_weight * pixel[0].rgb + tap.second_weight * pixel[1].rgb;
    };
    for (std::size_t x = 0; x < stride_; x += kLanes) {
      if (x % kCacheLine == 0) {
        for (std::int64_t plane = 0; plane < 3; ++plane) {
          __builtin_prefetch(next[0] + plane * plane_stride_ + x, 1, 2);
          __builtin_prefetch(next[1] + plane * plane_stride_ + x, 1, 2);
        }
      }
      store_planes({at(x), at(x + 1), at(x + 2), at(x + 3)}, out + x, stride_);
    }
  }

  const Image& image_;
  std::int64_t plane_stride_;  // of the target
  std::size_t stride_;         // the target's width in whole lanes
  std::vector<WeightedTap> taps_;
  std::array<std::array<float, 256>, 3> levels_;
  std::vector<Pixel> pixels_;               // one source row
  std::array<std::vector<float>, 2> rows_;  // [3, stride] each
  std::array<int, 2> held_{-1, -1};
  std::size_t oldest_ = 0;
};

// Average of one output place: source places first.. with their shares, which sum to 1.
struct Share {
  int first = 0;
  std::vector<float> weights{};
};

std::vector<Share> make_shares(int from, int to) {
  std::vector<Share> shares(static_cast<std::size_t>(to));
  const double step = static_cast<double>(from) / to;
  for (int i = 0; i < to; ++i) {
    const double begin = i * step, end = (i + 1) * step;
    Share& share = shares[static_cast<std::size_t>(i)];
    share.first = std::min(static_cast<int>(begin), from - 1);
    for (int place = share.first; place < from && place < end; ++place) {
      const double covered = std::min<double>(place + 1, end) - std::max<double>(place, begin);
      share.weights.push_back(static_cast<float>(covered / step));
    }
  }
  return shares;
}

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
  const std::vector<WeightedTap> taps =
      make_taps(image.height, target.height, false, static_cast<std::size_t>(target.height));
  RowSource rows(image, target, normalisation);
  const auto width = static_cast<std::size_t>(target.width);
  for (int y = 0; y < target.height; ++y) {
    const auto [first, upper_weight, lower_weight] = taps[static_cast<std::size_t>(y)];
    const NextRows next = {out + y * target.row_stride,
                           out + std::min(y + 1, target.height - 1) * target.row_stride};
    const float* const upper = rows.row(first, next);
    const float* const lower = rows.row(std::min(first + 1, image.height - 1), next);
    for (int c = 0; c < 3; ++c) {
      const std::size_t channel = static_cast<std::size_t>(c) * rows.stride();
      float* __restrict const row = out + c * target.plane_stride + y * target.row_stride;
#pragma GCC unroll 4
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

Image shrink(const Image& image, const ImageSize& to) {
  RETINA_CHECK(to.width >= 1 && to.width <= image.width && to.height >= 1 &&
               to.height <= image.height);
  const std::vector<Share> columns = make_shares(image.width, to.width);
  const std::vector<Share> rows = make_shares(image.height, to.height);
  Image out(to.width, to.height);
  std::vector<float> sums(static_cast<std::size_t>(image.width) * 3);
  for (int y = 0; y < to.height; ++y) {
    const Share& row = rows[static_cast<std::size_t>(y)];
    // First down the columns, so that memory is read in order, then along the row of sums.
    std::fill(sums.begin(), sums.end(), 0.0F);
    for (std::size_t k = 0; k < row.weights.size(); ++k) {
      const std::uint8_t* pixels = image.pixel(0, row.first + static_cast<int>(k));
      for (std::size_t i = 0; i < sums.size(); ++i) {
        sums[i] += row.weights[k] * static_cast<float>(pixels[i]);
      }
    }
    for (int x = 0; x < to.width; ++x) {
      const Share& column = columns[static_cast<std::size_t>(x)];
      for (std::size_t c = 0; c < 3; ++c) {
        float sum = 0.5F;
        for (std::size_t k = 0; k < column.weights.size(); ++k) {
          sum += column.weights[k] * sums[(static_cast<std::size_t>(column.first) + k) * 3 + c];
        }
        out.pixel(x, y)[c] = static_cast<std::uint8_t>(std::clamp(sum, 0.0F, 255.0F));
      }
    }
  }
  return out;
}

}  // namespace retina
