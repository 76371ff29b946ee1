#include "shared/ops/bias_relu.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/threshold_backward.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <type_traits>

#include "shared/ops/dispatch.h"
#include "shared/ops/kernels.h"
#include "shared/ops/own_kernels.h"

namespace retina {
namespace kernels {
namespace {

template <class Stored>
void bias_relu_cpu(const BiasRelu<Stored>& b) {
  constexpr std::int64_t kValues = 1 << 14;  // fewer do not pay for a thread
  at::parallel_for(0, b.count, kValues, [&b](std::int64_t begin, std::int64_t end) {
    for (std::int64_t place = begin; place < end; ++place) {
      put_bias_relu(b, place / b.channel_stride % b.channel_count,
                    b.residual == nullptr ? nullptr : b.residual + place, b.values + place);
    }
  });
}

}  // namespace
}  // namespace kernels

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::ScalarType computed_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

void apply_in_place(const at::Tensor& x, const at::Tensor& bias, const at::Tensor& residual,
                    bool relu) {
  if (is_replaced(OwnKernel::kBiasRelu, x)) {
    at::Tensor sum = x.to(computed_type(x));
    if (bias.defined()) sum = sum + bias.view({-1, 1, 1});
    if (residual.defined()) sum = sum + residual;
    x.copy_(relu ? sum.relu() : sum);
    return;
  }
  const at::MemoryFormat format = x.suggest_memory_format();
  RETINA_CHECK(x.is_contiguous(format), "strides ", x.strides());
  const at::Tensor added = residual.defined() ? residual.contiguous(format) : residual;
  kernels::for_stored_type_of(x, [&](auto type) {
    using Stored = decltype(type);
    const at::Tensor shift = bias.defined() ? bias.to(computed_type(x)).contiguous() : bias;
    const kernels::BiasRelu<Stored> arguments = {
        .values = kernels::write_data<Stored>(x),
        .bias = kernels::read_data<kernels::Loaded<Stored>>(shift),
        .residual = kernels::read_data<Stored>(added),
        .count = x.numel(),
        .channel_count = x.size(1),
        .channel_stride = format == at::MemoryFormat::ChannelsLast ? 1 : x.size(2) * x.size(3),
        .relu = relu};
    kernels::run_implementation("bias and ReLU", x, arguments, kernels::bias_relu_cpu<Stored>,
                                kernels::bias_relu_cuda<Stored>);
  });
}

// In f32, of f64 in f64.
at::Tensor sum_of_channels(const at::Tensor& gradient) {
  return gradient.sum({0, 2, 3}, /*keepdim=*/false, computed_type(gradient));
}

// The same as bias_relu_backward()'s with a bias, in one pass.
BiasReluGradients passed_and_summed(const at::Tensor& y, const at::Tensor& dy) {
  const bool is_differentiated =
      at::GradMode::is_enabled() && (y.requires_grad() || dy.requires_grad());
  RETINA_CHECK(!is_differentiated, "the gradient of bias_relu has none itself on GPUs");
  const at::Tensor output = y.contiguous(at::MemoryFormat::ChannelsLast),
                   gradients = dy.contiguous(at::MemoryFormat::ChannelsLast),
                   passed = at::empty_like(output);
  at::Tensor bias_gradient;
  kernels::for_stored_type_of(output, [&](auto type) {
    using Stored = decltype(type);
    using T = kernels::Loaded<Stored>;
    kernels::BiasReluBackward<Stored> arguments = {
        .output = kernels::read_data<Stored>(output),
        .output_gradients = kernels::read_data<Stored>(gradients),
        .row_count = output.numel() / output.size(1),
        .channel_count = output.size(1),
        .partials = nullptr,
        .gradient = kernels::write_data<Stored>(passed),
        .bias_gradient = nullptr};
    const at::TensorOptions on_device = output.options();
    const at::Tensor partials =
        at::empty({arguments.chunk_count(), arguments.channel_count}, on_device.dtype(at::kDouble));
    bias_gradient =
        at::empty({arguments.channel_count}, on_device.dtype(c10::CppTypeToScalarType<T>::value));
    arguments.partials = partials.mutable_data_ptr<double>();
    arguments.bias_gradient = bias_gradient.mutable_data_ptr<T>();
    kernels::run_on_gpu("gradient of bias and ReLU", output, arguments,
                        kernels::bias_relu_backward_cuda<Stored>);
  });
  return {passed.contiguous(y.suggest_memory_format()), bias_gradient};
}

class AddBiasRelu : public torch::autograd::Function<AddBiasRelu> {
 public:
  using Optional = std::optional<at::Tensor>;  // an undefined one cannot be passed

  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Optional& bias,
                            const Optional& residual, bool relu) {
    apply_in_place(x, bias.value_or(at::Tensor()), residual.value_or(at::Tensor()), relu);
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
    const bool wants_bias = saved["bias"].toBool();
    const at::Tensor& dy = output_gradients[0];
    const BiasReluGradients gradients =
        saved["relu"].toBool()
            ? bias_relu_backward(context->get_saved_variables()[0], dy, wants_bias)
            : BiasReluGradients{dy, wants_bias ? sum_of_channels(dy) : at::Tensor()};
    return {gradients.input,
            gradients.bias,
            saved["residual"].toBool() ? gradients.input : at::Tensor(),
            {}};
  }
};

}  // namespace

BiasReluGradients bias_relu_backward(const at::Tensor& y, const at::Tensor& dy, bool wants_bias) {
  RETINA_CHECK(y.dim() == 4 && dy.sizes() == y.sizes() && dy.scalar_type() == y.scalar_type(),
               dy.sizes());
  const bool has_kernel = y.is_cuda() && !is_replaced(OwnKernel::kBiasRelu, y);
  if (wants_bias && has_kernel && y.numel() > 0) return passed_and_summed(y, dy);
  const at::Tensor gradient = at::threshold_backward(dy, y, 0);
  return {gradient, wants_bias ? sum_of_channels(gradient) : at::Tensor()};
}

at::Tensor bias_relu(const at::Tensor& x, const BiasRelu& what) {
  const auto& [bias, residual, relu] = what;
  RETINA_CHECK(x.dim() == 4);
  RETINA_CHECK(!bias.defined() || (bias.dim() == 1 && bias.size(0) == x.size(1)), bias.sizes());
  RETINA_CHECK(!residual.defined() ||
                   (residual.sizes() == x.sizes() && residual.scalar_type() == x.scalar_type()),
               "residual ", residual.sizes());
  if (!bias.defined() && !residual.defined() && !relu) return x;
  const auto optional = [](const at::Tensor& tensor) {
    return tensor.defined() ? std::optional(tensor) : std::nullopt;
  };
  return AddBiasRelu::apply(x.contiguous(x.suggest_memory_format()), optional(bias),
                            optional(residual), relu);
}

}  // namespace retina
