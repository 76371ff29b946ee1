// The choice of each rank's GPU, however the ranks are started and GPUs shown to them: mpirun,
// where all ranks of a node see all of its GPUs; srun --gpus-per-task, where each sees its own;
// CUDA_VISIBLE_DEVICES in any order; parts of a GPU (MIG).
#pragma once

#include <string>
#include <vector>

#include "shared/comm/communicator.h"

namespace retina {

// The GPUs that a rank sees.
struct RankGpus {
  std::string host{};
  std::vector<std::string> ids{};  // GPUs' ids, unique on the host, in the order of CUDA's numbers
};

// Returns those of every rank, from its own ids, which must have no tabs and line breaks.
// Collective.
std::vector<RankGpus> gpus_of_ranks(Communicator& communicator,
                                    const std::vector<std::string>& own_ids);

// Returns the number by which `rank` knows its GPU: each rank in turn takes the first GPU that it
// sees and no earlier rank has. -1 if a rank sees none. Throws Error{kConfig} if none is left for
// it.
int gpu_of_rank(const std::vector<RankGpus>& job, int rank);

}  // namespace retina
