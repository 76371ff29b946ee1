// Which GPU each rank of a job takes, whatever starts the ranks and shows them: mpirun, where all
// of a node see all of its GPUs; srun --gpus-per-task, where each sees its own;
// CUDA_VISIBLE_DEVICES in any order; parts of a GPU (MIG).
#pragma once

#include <string>
#include <vector>

#include "shared/comm/communicator.h"

namespace retina {

// What a rank sees.
struct RankGpus {
  std::string host{};
  std::vector<std::string> ids{};  // of GPUs, unique on the host, in the order of CUDA's numbers
};

// Of every rank, from its own ids, which have no tabs and line breaks. Collective.
std::vector<RankGpus> gpus_of_ranks(Communicator& communicator,
                                    const std::vector<std::string>& own_ids);

// The number that `rank` knows its GPU by: each rank in turn takes the first GPU that it sees and
// none before it has. -1 where a rank sees none. Throws Error{kConfig} when none is left for it.
int gpu_of_rank(const std::vector<RankGpus>& job, int rank);

}  // namespace retina
