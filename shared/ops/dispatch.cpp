#include "shared/ops/dispatch.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "shared/base/cat.h"

namespace retina::kernels {
namespace {

struct AttachGradient : torch::autograd::Function<AttachGradient> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& /*input*/,
                            const at::Tensor& sums, const at::Tensor& gradient) {
    context->save_for_backward({gradient});
    return sums.clone();
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& outer) {
    const at::Tensor gradient = context->get_saved_variables().at(0);
    std::vector<std::int64_t> shape(static_cast<std::size_t>(gradient.dim()), 1);
    shape.front() = -1;
    return {gradient.mul(outer.at(0).view(shape)), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

void* stream_of(const at::Tensor& tensor) {
  const c10::impl::VirtualGuardImpl device(tensor.device().type());
  return device.getStream(tensor.device()).native_handle();
}

void check_cuda(const char* operation, const char* problem) {
  if (problem != nullptr) throw Error(ErrorKind::kInternal, cat(operation, ": CUDA: ", problem));
}

at::Tensor attach_gradient(const at::Tensor& input, const at::Tensor& sums,
                           const at::Tensor& gradient) {
  return gradient.defined() ? AttachGradient::apply(input, sums, gradient) : sums;
}

bool needs_gradient(const at::Tensor& input) {
  return at::GradMode::is_enabled() && input.requires_grad();
}

}  // namespace retina::kernels
