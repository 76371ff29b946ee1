// Loops over the elements of buffers, as fast as the machine's vectors allow, with the same bits on
// every machine: between f32 and the 16-bit floats of the wire (base/float16.h, base/bfloat16.h),
// where `type` is kFloat16 or kBFloat16, and sums of any type in a stated order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shared/comm/element_type.h"

namespace retina {

// Computes out[i] = in[i] · scale, rounded to nearest even.
void narrow(const float* in, std::size_t count, ElementType type, float scale, std::uint16_t* out);

// Computes out[i] = in[i] · scale.
void widen(const std::uint16_t* in, std::size_t count, ElementType type, float scale, float* out);

// Computes both[i] = in[i] + both[i], added in f32 and rounded.
void add(const std::uint16_t* in, std::uint16_t* both, std::size_t count, ElementType type);

// Returns false if any value is infinite or not a number.
bool all_finite(const std::uint16_t* in, std::size_t count, ElementType type);
bool is_finite(std::uint16_t bits, ElementType type);

// Computes output[i] = (..(inputs[0][i] op inputs[1][i]) op ..) op inputs[last][i]. The 16-bit
// types are accumulated in f32 and rounded once, at the end; f32 and f64 in their own precision;
// integers wrap. `output` may be one of the inputs.
void reduce_in_order(const std::vector<const void*>& inputs, void* output, std::size_t count,
                     ElementType type, ReduceOp op);

}  // namespace retina
