// Adding (or taking the maximum of) buffers of any element type, in a stated order.
#pragma once

#include <cstddef>
#include <vector>

#include "shared/comm/communicator.h"

namespace retina {

// output[i] = (..(inputs[0][i] op inputs[1][i]) op ..) op inputs[last][i]. The 16-bit types are
// accumulated in f32 and rounded once, at the end; f32 and f64 in their own precision; integers
// wrap. `output` may be one of the inputs.
void reduce_in_order(const std::vector<const void*>& inputs, void* output, std::size_t count,
                     ElementType type, ReduceOp op);

}  // namespace retina
