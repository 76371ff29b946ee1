#include "shared/ops/dispatch.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include "shared/base/cat.h"

namespace retina::kernels {

void* stream_of(const at::Tensor& tensor) {
  const c10::impl::VirtualGuardImpl device(tensor.device().type());
  return device.getStream(tensor.device()).native_handle();
}

void check_cuda(const char* operation, const char* problem) {
  if (problem != nullptr) throw Error(ErrorKind::kInternal, cat(operation, ": CUDA: ", problem));
}

}  // namespace retina::kernels
