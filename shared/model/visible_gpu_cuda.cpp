#include <cuda_runtime_api.h>

#include <string>
#include <vector>

#include "shared/base/cat.h"
#include "shared/base/hash.h"
#include "shared/model/device.h"

namespace retina {

std::vector<std::string> visible_gpus() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  std::vector<std::string> ids;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    const bool is_known = cudaGetDeviceProperties(&properties, i) == cudaSuccess;
    ids.push_back(is_known ? hex64(xxh3({properties.uuid.bytes, sizeof properties.uuid.bytes}))
                           : cat("number ", i));
  }
  (void)cudaGetLastError();  // no GPU is not an error
  return ids;
}

}  // namespace retina
