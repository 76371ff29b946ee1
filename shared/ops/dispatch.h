// What the checking halves of the operations share: type and device dispatch, errors of CUDA.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>

#include <cstdint>
#include <type_traits>

#include "shared/base/error.h"

namespace retina::kernels {

// Calls body(T{}) with T float or double, the type of `tensor`, on the tensor's device.
template <class Body>
void for_type_of(const at::Tensor& tensor, const Body& body) {
  const c10::DeviceGuard guard(tensor.device());
  if (tensor.scalar_type() == at::kFloat) return body(float{});
  RETINA_CHECK(tensor.scalar_type() == at::kDouble, "got ", tensor.scalar_type());
  body(double{});
}

// The current stream of the tensor's CUDA device, as a cudaStream_t.
void* stream_of(const at::Tensor& tensor);

// Throws Error{kInternal} with CUDA's text unless `problem` is nullptr.
void check_cuda(const char* operation, const char* problem);

// Runs the twin for the device of `tensor`: cpu(arguments) or cuda(arguments, stream).
template <class Arguments, class Cpu, class Cuda>
void run_implementation(const char* operation, const at::Tensor& tensor, const Arguments& arguments,
                        const Cpu& cpu, const Cuda& cuda) {
  if (tensor.is_cuda()) {
    check_cuda(operation, cuda(arguments, stream_of(tensor)));
  } else {
    RETINA_CHECK(tensor.is_cpu(), "device ", tensor.device());
    cpu(arguments);
  }
}

}  // namespace retina::kernels
