// Gradients on the wire: f32 values summed over ranks as they are, or in 16 bits, which halves the
// traffic. Values stay f32 on the ranks; values that 16 bits cannot hold are never lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/choices.h"
#include "shared/comm/communicator.h"

namespace retina {

// Factor of f16 values on the wire. float16 holds 6e-8 to 65504, and gradients are small; a power
// of 2 rounds nothing. Values above 64 then travel again in f32.
inline constexpr float kFloat16WireScale = 1024;

// The values of --wire, also stored in a run's folder.
inline const Choices<ElementType> kWireTypes = {{"fp32", ElementType::kFloat32},
                                                {"bf16", ElementType::kBFloat16},
                                                {"fp16", ElementType::kFloat16}};

struct WireOptions {
  ElementType type = ElementType::kFloat32;  // one of kWireTypes
  bool ordered = false;                      // all_reduce_ordered: bits do not depend on the cut
};

// Used by one thread.
class WireSum {
 public:
  // `communicator` must outlive this.
  WireSum(Communicator& communicator, const WireOptions& options);

  // Replaces values[i] by its sum over ranks, the same bits on every rank. In 16 bits an element
  // whose sum came out infinite or NaN (known to all ranks, since they got the same bits) gets its
  // f32 sum from a second all-reduce. `name` labels the collectives. Collective.
  void sum(float* values, std::size_t count, const std::string& name);
  // Does the same for f64, which travels as it is.
  void sum(double* values, std::size_t count, const std::string& name);

  // Returns how many calls had finite sums too large for 16 bits.
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
