// Element types of collectives.
#pragma once

#include <cstddef>

namespace retina {

// Element types. The two 16-bit ones (base/float16.h, base/bfloat16.h) are for the wire: they are
// added as f32 and rounded to nearest even. `all_reduce` over MPI rounds once per addition, that is
// once per hop of the ring; `all_reduce_ordered` of every back end, and `all_reduce` between
// threads, round the sum once.
enum class ElementType { kUint8, kInt64, kFloat32, kFloat64, kFloat16, kBFloat16 };
enum class ReduceOp { kSum, kMax };

std::size_t element_size_bytes(ElementType type);
const char* element_name(ElementType type);        // "float32"
const char* element_short_name(ElementType type);  // "f32"; "unknown" for any other number

}  // namespace retina
