// Arrays that kernels may use, for tests.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

#include "tests/gpu/emulation/memory.h"

namespace retina::emulation {

// Where there are many, address space more than memory.
struct Zeros {
  std::size_t count;
};

// Of exactly so many elements; what lies beside them is nobody's.
template <class T>
class DeviceArray {
 public:
  // Nothing yet: what a kernel is to write.
  explicit DeviceArray(std::size_t count, std::size_t misalignment = 0)
      : count_(count), memory_(Content::kNothing, {count, sizeof(T), misalignment}) {}
  // `content`: kInput or kState.
  DeviceArray(Content content, const std::vector<T>& values, std::size_t misalignment = 0)
      : count_(values.size()), memory_(content, {values.size(), sizeof(T), misalignment}) {
    if (!values.empty()) std::memcpy(data(), values.data(), values.size() * sizeof(T));
  }
  DeviceArray(Content content, const Zeros& zeros, std::size_t misalignment = 0)
      : count_(zeros.count), memory_(content, {count_, sizeof(T), misalignment}) {
    if (!memory_.is_sparse()) std::memset(data(), 0, count_ * sizeof(T));
  }

  T* data() const { return static_cast<T*>(memory_.data()); }
  std::size_t size() const { return count_; }
  T& operator[](std::size_t i) const { return data()[i]; }
  std::vector<T> values() const { return {data(), data() + count_}; }
  std::size_t unwritten_count() const { return memory_.unwritten_count(); }

 private:
  std::size_t count_;
  Memory memory_;
};

}  // namespace retina::emulation
