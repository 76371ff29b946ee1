// Parts that the operations' checks and CPU kernels share: dispatch by type and device, errors of
// CUDA, loops for vector units.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdint>
#include <type_traits>

#include "shared/base/error.h"
#include "shared/ops/kernels.h"

// Before a function: built for AVX2 too, chosen when the program starts. Without fused
// multiply-adds the bits are the same.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define RETINA_WIDE __attribute__((target_clones("default", "avx2")))
#else
#define RETINA_WIDE
#endif

namespace retina::kernels {

// ATen's type for one of kernels.h.
template <class Stored>
using Element =
    std::conditional_t<std::is_same_v<Stored, Bfloat16>, at::BFloat16,
                       std::conditional_t<std::is_same_v<Stored, Float16>, at::Half, Stored>>;

// The elements of a tensor, nullptr for an undefined one.
template <class Stored>
const Stored* read_data(const at::Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  return reinterpret_cast<const Stored*>(tensor.const_data_ptr<Element<Stored>>());
}
template <class Stored>
Stored* write_data(const at::Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  return reinterpret_cast<Stored*>(tensor.mutable_data_ptr<Element<Stored>>());
}

// Calls body(T{}) with T float or double, the type of `tensor`, on the tensor's device.
template <class Body>
void for_type_of(const at::Tensor& tensor, const Body& body) {
  const c10::DeviceGuard guard(tensor.device());
  if (tensor.scalar_type() == at::kFloat) return body(float{});
  RETINA_CHECK(tensor.scalar_type() == at::kDouble, "got ", tensor.scalar_type());
  body(double{});
}

// The same with Bfloat16 and Float16, too.
template <class Body>
void for_stored_type_of(const at::Tensor& tensor, const Body& body) {
  const c10::DeviceGuard guard(tensor.device());
  if (tensor.scalar_type() == at::kBFloat16) return body(Bfloat16{});
  if (tensor.scalar_type() == at::kHalf) return body(Float16{});
  for_type_of(tensor, body);
}

// Checks what every assigner gets: anchors [A, 4], boxes [G, 4] of all images, offsets [N + 1].
inline void check_boxes_of_images(const at::Tensor& anchors, const at::Tensor& boxes,
                                  const at::Tensor& offsets) {
  RETINA_CHECK(anchors.dim() == 2 && anchors.size(1) == 4);
  RETINA_CHECK(boxes.dim() == 2 && boxes.size(1) == 4);
  RETINA_CHECK(boxes.scalar_type() == anchors.scalar_type() && boxes.device() == anchors.device());
  RETINA_CHECK(offsets.dim() == 1 && offsets.size(0) >= 1 && offsets.scalar_type() == at::kLong);
}

// Partial results that a loop keeps side by side: a compiler may not reorder a single one.
constexpr std::int64_t kLanes = 8;

// Launches the kernels of `arguments` on the current stream of the GPU of `tensor`. Throws
// Error{kInternal} with CUDA's text.
template <class Arguments>
void run_on_gpu(const char* operation, const at::Tensor& tensor, const Arguments& arguments) {
  const c10::impl::VirtualGuardImpl device(tensor.device().type());
  void* const stream = device.getStream(tensor.device()).native_handle();  // a cudaStream_t
  const char* const problem = launch_kernels(arguments, stream);
  if (problem != nullptr) throw Error(ErrorKind::kInternal, cat(operation, ": CUDA: ", problem));
}

// Runs the implementation for the device of `tensor`, cpu(arguments) or as run_on_gpu() does.
template <class Arguments, class Cpu>
void run_implementation(const char* operation, const at::Tensor& tensor, const Arguments& arguments,
                        const Cpu& cpu) {
  if (tensor.is_cuda()) return run_on_gpu(operation, tensor, arguments);
  RETINA_CHECK(tensor.is_cpu(), "device ", tensor.device());
  cpu(arguments);
}

}  // namespace retina::kernels
