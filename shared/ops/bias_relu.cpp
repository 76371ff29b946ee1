#include "shared/ops/bias_relu.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/threshold_backward.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "shared/ops/dispatch.h"
#include "shared/ops/own_kernels.h"

namespace retina {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::ScalarType computed_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

struct Gradients {
  at::Tensor input;  // of x, and of the residual
  at::Tensor bias;
};

// What the ReLU that gave `y` lets pass of `dy`, and its sums over images and pixels, in one pass.
Gradients passed_and_summed(const at::Tensor& y, const at::Tensor& dy) {
  const bool is_differentiated =
      at::GradMode::is_enabled() && (y.requires_grad() || dy.requires_grad());
  RETINA_CHECK(!is_differentiated, "the gradient of bias_relu has none itself on GPUs");
  const at::Tensor output = y.contiguous(at::MemoryFormat::ChannelsLast),
                   gradients = dy.contiguous(at::MemoryFormat::ChannelsLast),
                   passed = at::empty_like(output);
  const std::int64_t channel_count = output.size(1), row_count = output.numel() / channel_count;
  const at::TensorOptions on_device = output.options();
  const at::Tensor sums = at::empty({channel_count}, on_device.dtype(computed_type(output)));
  kernels::for_stored_type_of(output, [&](auto type) {
    using Stored = decltype(type);
    kernels::BiasReluBackward<Stored> arguments = {
        .output = kernels::read_data<Stored>(output),
        .output_gradients = kernels::read_data<Stored>(gradients),
        .row_count = row_count,
        .channel_count = channel_count,
        .partials = nullptr,
        .gradient = kernels::write_data<Stored>(passed),
        .bias_gradient = sums.mutable_data_ptr<kernels::Loaded<Stored>>()};
    const at::Tensor partials = at::empty({kernels::count_of_chunks(arguments), channel_count},
                                          on_device.dtype(at::kDouble));
    arguments.partials = partials.mutable_data_ptr<double>();
    kernels::run_on_gpu("gradient of bias and ReLU", output, arguments);
  });
  return {passed.contiguous(y.suggest_memory_format()), sums};
}

class AddBiasRelu : public torch::autograd::Function<AddBiasRelu> {
 public:
  using Optional = std::optional<at::Tensor>;  // an undefined one cannot be passed

  // In place; x is dense.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Optional& bias,
                            const Optional& residual, bool relu) {
    const at::MemoryFormat format = x.suggest_memory_format();
    const at::Tensor shift = bias ? bias->contiguous() : at::Tensor(),
                     added = residual ? residual->contiguous(format) : at::Tensor();
    kernels::for_stored_type_of(x, [&](auto type) {
      using Stored = decltype(type);
      const kernels::BiasRelu<Stored> arguments = {
          .values = kernels::write_data<Stored>(x),
          .bias = kernels::read_data<kernels::Loaded<Stored>>(shift),
          .residual = kernels::read_data<Stored>(added),
          .count = x.numel(),
          .channel_count = x.size(1),
          .channel_stride = format == at::MemoryFormat::ChannelsLast ? 1 : x.size(2) * x.size(3),
          .relu = relu};
      kernels::run_on_gpu("bias and ReLU", x, arguments);
    });
    context->mark_dirty({x});
    if (relu) context->save_for_backward({x});
    auto& saved = context->saved_data;
    saved["relu"] = relu;
    saved["bias"] = bias && bias->requires_grad();
    saved["residual"] = residual && residual->requires_grad();
    return x;
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    auto& saved = context->saved_data;
    const bool relu = saved["relu"].toBool(), wants_bias = saved["bias"].toBool();
    Gradients gradients = {.input = output_gradients[0], .bias = {}};
    if (relu && wants_bias) {
      gradients = passed_and_summed(context->get_saved_variables()[0], gradients.input);
    } else if (relu) {
      gradients.input =
          at::threshold_backward(gradients.input, context->get_saved_variables()[0], 0);
    } else if (wants_bias) {
      gradients.bias =
          gradients.input.sum({0, 2, 3}, /*keepdim=*/false, computed_type(gradients.input));
    }
    return {gradients.input,
            gradients.bias,
            saved["residual"].toBool() ? gradients.input : at::Tensor(),
            {}};
  }
};

}  // namespace

at::Tensor bias_relu(const at::Tensor& x, const BiasRelu& what) {
  const auto& [bias, residual, relu] = what;
  RETINA_CHECK(x.dim() == 4);
  RETINA_CHECK(!bias.defined() || (bias.dim() == 1 && bias.size(0) == x.size(1)), bias.sizes());
  RETINA_CHECK(!residual.defined() || residual.sizes() == x.sizes(), "residual ", residual.sizes());
  if (!bias.defined() && !residual.defined() && !relu) return x;
  const at::Tensor dense = x.contiguous(x.suggest_memory_format());
  if (is_left_to_libtorch(OwnKernel::kBiasRelu, x)) {
    at::Tensor y = bias.defined() ? dense.to(computed_type(x)) : dense;
    if (bias.defined()) y += bias.view({-1, 1, 1});
    if (residual.defined()) y += residual;
    y = y.to(x.scalar_type());
    return relu ? y.relu_() : y;
  }
  const auto optional = [](const at::Tensor& tensor, at::ScalarType type) {
    return tensor.defined() ? std::optional(tensor.to(type)) : std::nullopt;
  };
  return AddBiasRelu::apply(dense, optional(bias, computed_type(x)),
                            optional(residual, x.scalar_type()), relu);
}

}  // namespace retina
