// Buffers of any element type for the tests of collectives: filled and read as f64.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "shared/comm/communicator.h"
#include "shared/numeric/bfloat16.h"
#include "shared/numeric/float16.h"
#include "shared/numeric/random.h"

namespace retina {

inline constexpr ElementType kAllTypes[] = {ElementType::kUint8,   ElementType::kInt64,
                                            ElementType::kFloat32, ElementType::kFloat64,
                                            ElementType::kFloat16, ElementType::kBFloat16};
inline constexpr ElementType kFloatTypes[] = {ElementType::kFloat32, ElementType::kFloat64,
                                              ElementType::kFloat16, ElementType::kBFloat16};

class Elements {
 public:
  Elements(ElementType type, std::size_t count)
      : type_(type), count_(count), bytes_(count * element_size_bytes(type)) {}

  void* data() { return bytes_.data(); }
  void* at(std::size_t i) { return bytes_.data() + i * element_size_bytes(type_); }
  std::size_t count() const { return count_; }
  std::string bits() const { return {bytes_.begin(), bytes_.end()}; }

  void set(std::size_t i, double value) {
    switch (type_) {
      case ElementType::kUint8:
        return put(i, static_cast<std::uint8_t>(value));
      case ElementType::kInt64:
        return put(i, static_cast<std::int64_t>(value));
      case ElementType::kFloat32:
        return put(i, static_cast<float>(value));
      case ElementType::kFloat64:
        return put(i, value);
      case ElementType::kFloat16:
        return put(i, float16_from_float(static_cast<float>(value)));
      case ElementType::kBFloat16:
        return put(i, bfloat16_from_float(static_cast<float>(value)));
    }
  }

  double get(std::size_t i) const {
    switch (type_) {
      case ElementType::kUint8:
        return get_as<std::uint8_t>(i);
      case ElementType::kInt64:
        return static_cast<double>(get_as<std::int64_t>(i));
      case ElementType::kFloat32:
        return get_as<float>(i);
      case ElementType::kFloat16:
        return float_from_float16(get_as<std::uint16_t>(i));
      case ElementType::kBFloat16:
        return float_from_bfloat16(get_as<std::uint16_t>(i));
      case ElementType::kFloat64:
        break;
    }
    return get_as<double>(i);
  }

  // Of magnitudes 2^-6 to 2^6 and both signs: sums in other orders round differently.
  void fill_randomly(std::uint64_t seed, int rank) {
    const RandomStream stream{seed, RandomUse::kTest, static_cast<std::uint32_t>(rank)};
    for (std::size_t i = 0; i < count_; ++i) {
      const std::uint64_t bits = stream.bits(i);
      const double scale = static_cast<double>(1u << (bits % 13)) / 64;
      set(i, (static_cast<double>(bits >> 11) * 0x1p-53 - 0.5) * 2 * scale);
    }
  }

 private:
  template <class T>
  void put(std::size_t i, T value) {
    std::memcpy(bytes_.data() + i * sizeof value, &value, sizeof value);
  }
  template <class T>
  T get_as(std::size_t i) const {
    T value;
    std::memcpy(&value, bytes_.data() + i * sizeof value, sizeof value);
    return value;
  }

  ElementType type_;
  std::size_t count_;
  std::vector<char> bytes_;
};

// What all_reduce_ordered promises, one element at a time: rank 0's + rank 1's + ..., in f64, in
// f32, or for the 16-bit types in f32 and rounded at the end.
inline Elements serial_sum(std::vector<Elements>& ranks, ElementType type) {
  Elements sum(type, ranks.front().count());
  for (std::size_t i = 0; i < sum.count(); ++i) {
    if (type == ElementType::kFloat64) {
      double value = ranks.front().get(i);
      for (std::size_t r = 1; r < ranks.size(); ++r) value += ranks[r].get(i);
      sum.set(i, value);
    } else {
      auto value = static_cast<float>(ranks.front().get(i));
      for (std::size_t r = 1; r < ranks.size(); ++r) value += static_cast<float>(ranks[r].get(i));
      sum.set(i, value);
    }
  }
  return sum;
}

}  // namespace retina
