#include <cuda_runtime_api.h>

#include <string>

#include "shared/base/hash.h"
#include "shared/model/device.h"

namespace retina {

std::string only_gpu() {
  int count = 0;
  cudaDeviceProp properties{};
  const bool is_known = cudaGetDeviceCount(&count) == cudaSuccess && count == 1 &&
                        cudaGetDeviceProperties(&properties, 0) == cudaSuccess;
  (void)cudaGetLastError();  // no GPU is not an error
  // A part of a GPU (MIG) has an id of its own too.
  return is_known ? hex64(xxh3({properties.uuid.bytes, sizeof properties.uuid.bytes})) : "";
}

}  // namespace retina
