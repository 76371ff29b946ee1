#include "shared/base/random.h"

#include <cmath>
#include <numbers>
#include <utility>

namespace retina {
namespace {

using Block = std::array<std::uint32_t, 4>;

Block block_at(const RandomStream& stream, std::uint64_t index) {
  return philox4x32(
      {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), stream.stream,
       static_cast<std::uint32_t>(stream.use)},
      {static_cast<std::uint32_t>(stream.seed), static_cast<std::uint32_t>(stream.seed >> 32)});
}

std::uint64_t join(std::uint32_t low, std::uint32_t high) {
  return low | (static_cast<std::uint64_t>(high) << 32);
}

double to_unit(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace

Block philox4x32(Block counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

std::uint64_t RandomStream::bits(std::uint64_t index) const {
  const Block block = block_at(*this, index);
  return join(block[0], block[1]);
}

double RandomStream::unit(std::uint64_t index) const {
  return to_unit(bits(index));
}

double RandomStream::normal(std::uint64_t index) const {
  const Block block = block_at(*this, index);
  const double u = 1.0 - to_unit(join(block[0], block[1]));  // (0, 1]: the logarithm is finite
  const double v = to_unit(join(block[2], block[3]));
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

std::uint64_t RandomStream::below(std::uint64_t index, std::uint64_t bound) const {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(bits(index)) * bound) >> 64);
}

std::vector<std::uint32_t> permutation(std::size_t count, const RandomStream& stream) {
  std::vector<std::uint32_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<std::uint32_t>(i);
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[stream.below(i, i)]);
  return order;
}

}  // namespace retina
