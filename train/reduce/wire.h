// Gradients on the wire: f32 values summed over ranks as they are, or in 16 bit, which halves what
// travels. Values stay f32 on the ranks; those that 16 bits cannot hold are never lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/choices.h"
#include "shared/comm/communicator.h"

namespace retina {

// float16 holds 6e-8 to 65504, gradients are small: on the wire they are 1024 times larger, which
// rounds nothing. What exceeds 64 then travels again in f32.
inline constexpr float kFloat16WireScale = 1024;

// What --wire takes, and a run's folder remembers.
inline const Choices<ElementType> kWireTypes = {{"fp32", ElementType::kFloat32},
                                                {"bf16", ElementType::kBFloat16},
                                                {"fp16", ElementType::kFloat16}};

struct WireOptions {
  ElementType type = ElementType::kFloat32;  // one of kWireTypes
  bool ordered = false;                      // all_reduce_ordered: bits do not depend on the cut
};

// One thread uses it.
class WireSum {
 public:
  // `communicator` must outlive this.
  WireSum(Communicator& communicator, const WireOptions& options);

  // In place: values[i] becomes its sum over ranks, the same bits on every rank. In 16 bit an
  // element whose sum came out infinite or NaN (known to all ranks, since they got the same bits)
  // gets its f32 sum from a second all-reduce. `name` labels the collectives. Collective.
  void sum(float* values, std::size_t count, const std::string& name);
  // f64 travels as it is.
  void sum(double* values, std::size_t count, const std::string& name);

  // How many calls had finite sums too large for 16 bit.
  std::int64_t repeated_count() const { return repeated_count_; }

 private:
  void reduce(void* data, std::size_t count, ElementType type);
  void sum_again(float* values, std::size_t count, const std::string& name);

  Communicator& communicator_;
  WireOptions options_;
  float scale_ = 1;
  std::vector<std::uint16_t> wire_;
  std::int64_t repeated_count_ = 0;
};

}  // namespace retina
