#include "shared/comm/reduce_elements.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "shared/base/error.h"
#include "shared/comm/float16.h"

namespace retina {
namespace {

constexpr std::size_t kBlockCount = 1024;  // the accumulators stay in the first-level cache

// How an element is stored and what it is accumulated in.
template <class T>
struct Plain {
  using Stored = T;
  using Sum = T;
  static Sum load(Stored value) { return value; }
  static Stored store(Sum value) { return value; }
};

struct Half {
  using Stored = std::uint16_t;
  using Sum = float;
  static Sum load(Stored bits) { return float_from_float16(bits); }
  static Stored store(Sum value) { return float16_from_float(value); }
};

struct Brain {
  using Stored = std::uint16_t;
  using Sum = float;
  static Sum load(Stored bits) { return float_from_bfloat16(bits); }
  static Stored store(Sum value) { return bfloat16_from_float(value); }
};

template <class T>
T add(T a, T b) {
  return a + b;
}
std::uint8_t add(std::uint8_t a, std::uint8_t b) {
  return static_cast<std::uint8_t>(a + b);
}
std::int64_t add(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

template <class Type>
void reduce(const std::vector<const void*>& inputs, void* output, std::size_t count, ReduceOp op) {
  std::array<typename Type::Sum, kBlockCount> sums;
  for (std::size_t start = 0; start < count; start += kBlockCount) {
    const std::size_t part = std::min(kBlockCount, count - start);
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      const auto* input = static_cast<const typename Type::Stored*>(inputs[k]) + start;
      if (k == 0) {
        for (std::size_t i = 0; i < part; ++i) sums[i] = Type::load(input[i]);
      } else if (op == ReduceOp::kSum) {
        for (std::size_t i = 0; i < part; ++i) sums[i] = add(sums[i], Type::load(input[i]));
      } else {
        for (std::size_t i = 0; i < part; ++i) sums[i] = std::max(sums[i], Type::load(input[i]));
      }
    }
    auto* result = static_cast<typename Type::Stored*>(output) + start;
    for (std::size_t i = 0; i < part; ++i) result[i] = Type::store(sums[i]);
  }
}

}  // namespace

void reduce_in_order(const std::vector<const void*>& inputs, void* output, std::size_t count,
                     ElementType type, ReduceOp op) {
  RETINA_CHECK(!inputs.empty());
  switch (type) {
    case ElementType::kUint8:
      return reduce<Plain<std::uint8_t>>(inputs, output, count, op);
    case ElementType::kInt64:
      return reduce<Plain<std::int64_t>>(inputs, output, count, op);
    case ElementType::kFloat32:
      return reduce<Plain<float>>(inputs, output, count, op);
    case ElementType::kFloat64:
      return reduce<Plain<double>>(inputs, output, count, op);
    case ElementType::kFloat16:
      return reduce<Half>(inputs, output, count, op);
    case ElementType::kBFloat16:
      return reduce<Brain>(inputs, output, count, op);
  }
}

}  // namespace retina
