// PyTorch DistributedDataParallel's own reducer (torch/csrc/distributed/c10d/reducer.hpp), as an
// oracle: the gradients that it leaves on a model.
#pragma once

#include <functional>
#include <vector>

#include "shared/comm/communicator.h"
#include "shared/model/retinanet.h"

namespace retina {

// Calls `passes`, which computes backward passes and says before the last one which tensors it will
// start from. After that every gradient of `model` is its mean over ranks, by c10d::Reducer with
// `bucket_bytes` a bucket over `communicator`. Collective.
void reduce_by_c10d(
    RetinaNet& model, std::size_t bucket_bytes, Communicator& communicator,
    const std::function<void(const std::function<void(const std::vector<at::Tensor>&)>&)>& passes);

}  // namespace retina
