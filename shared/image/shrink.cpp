#include <algorithm>
#include <cstddef>
#include <vector>

#include "shared/base/error.h"
#include "shared/image/resize.h"

namespace retina {
namespace {

// What one output place averages: source places first.. with their shares, which sum to 1.
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

Image shrink(const Image& image, const ImageSize& to) {
  RETINA_CHECK(to.width >= 1 && to.width <= image.width && to.height >= 1 &&
               to.height <= image.height);
  const std::vector<Share> columns = make_shares(image.width, to.width);
  const std::vector<Share> rows = make_shares(image.height, to.height);
  Image out(to.width, to.height);
  std::vector<float> sums(static_cast<std::size_t>(image.width) * 3);
  for (int y = 0; y < to.height; ++y) {
    const Share& row = rows[static_cast<std::size_t>(y)];
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
