// In place of nccl_communicator.cpp in a build without CUDA.
#include "train/reduce/nccl_communicator.h"

namespace retina {

bool has_nccl() {
  return false;
}

std::unique_ptr<NcclCommunicator> make_nccl_communicator(Communicator&, int) {
  return nullptr;
}

}  // namespace retina
