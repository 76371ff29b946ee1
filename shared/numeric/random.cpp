#include "shared/numeric/random.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

namespace retina {
namespace {

RandomPlace place_of(const RandomStream& stream, std::uint64_t index) {
  return {.seed = stream.seed, .use = stream.use, .stream = stream.stream, .index = index};
}

double to_unit(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace

std::uint64_t RandomStream::bits(std::uint64_t index) const {
  return random_bits(place_of(*this, index));
}

double RandomStream::unit(std::uint64_t index) const {
  return to_unit(bits(index));
}

double RandomStream::normal(std::uint64_t index) const {
  const PhiloxBlock block = block_at(place_of(*this, index));
  const double u = 1.0 - to_unit(low_half(block));  // (0, 1]: the logarithm is finite
  const double v = to_unit(high_half(block));
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

std::uint64_t RandomStream::below(std::uint64_t index, std::uint64_t bound) const {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(bits(index)) * bound) >> 64);
}

std::vector<std::uint32_t> permutation(std::size_t count, const RandomStream& stream) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[stream.below(i, i)]);
  return order;
}

}  // namespace retina
