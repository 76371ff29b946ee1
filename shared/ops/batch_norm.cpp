#include "shared/ops/batch_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "shared/ops/dispatch.h"
#include "shared/ops/own_kernels.h"

namespace retina {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Optional = std::optional<at::Tensor>;

at::Tensor in_channels_last(const at::Tensor& tensor) {
  return tensor.contiguous(at::MemoryFormat::ChannelsLast);
}

// `values` is x in channels-last memory; `scratch` must live as long as the result.
template <class Stored>
kernels::BatchNorm<Stored> batch_norm_arguments(const at::Tensor& values, const at::Tensor& weight,
                                                const at::Tensor& bias, bool relu,
                                                at::Tensor& scratch) {
  using T = kernels::Loaded<Stored>;
  kernels::BatchNorm<Stored> norm = {.values = kernels::read_data<Stored>(values),
                                     .weight = weight.const_data_ptr<T>(),
                                     .bias = bias.const_data_ptr<T>(),
                                     .row_count = values.numel() / values.size(1),
                                     .channel_count = values.size(1),
                                     .relu = relu,
                                     .partials = nullptr};
  scratch = at::empty({kernels::count_of_chunks(norm), norm.channel_count, 2},
                      values.options().dtype(at::kDouble));
  norm.partials = scratch.mutable_data_ptr<double>();
  return norm;
}

class BatchNormRelu : public torch::autograd::Function<BatchNormRelu> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& given_weight, const at::Tensor& given_bias,
                            const Optional& residual, const BatchNorm& what) {
    const at::Tensor weight = given_weight.contiguous(), bias = given_bias.contiguous();
    const at::Tensor values = in_channels_last(x),
                     added = residual ? in_channels_last(*residual) : at::Tensor();
    const at::Tensor out = at::empty_like(values);
    const at::Tensor mean = at::empty_like(weight), inverse_std = at::empty_like(weight);
    kernels::for_stored_type_of(x, [&](auto type) {
      using Stored = decltype(type);
      using T = kernels::Loaded<Stored>;
      at::Tensor scratch;
      const kernels::BatchNormForward<Stored> arguments = {
          .norm = batch_norm_arguments<Stored>(values, weight, bias, what.relu, scratch),
          .residual = kernels::read_data<Stored>(added),
          .eps = what.eps,
          .momentum = what.momentum,
          .means = mean.mutable_data_ptr<T>(),
          .inverse_stds = inverse_std.mutable_data_ptr<T>(),
          .running_mean = what.running_mean.mutable_data_ptr<T>(),
          .running_var = what.running_var.mutable_data_ptr<T>(),
          .out = kernels::write_data<Stored>(out)};
      kernels::run_on_gpu("batch norm", values, arguments);
    });
    // Of x's own memory format it is `out` itself, which is kept where backward needs it.
    const at::Tensor y = out.contiguous(x.suggest_memory_format());
    variable_list saved = {x, weight, bias, mean, inverse_std};
    if (residual && what.relu) saved.push_back(y);
    context->save_for_backward(saved);
    context->saved_data["relu"] = what.relu;
    context->saved_data["residual"] = residual.has_value();
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    RETINA_CHECK(!at::GradMode::is_enabled(), "the gradient of batch_norm_relu has none itself");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &bias = saved[2], &mean = saved[3],
                     &inverse_std = saved[4];
    const bool relu = context->saved_data["relu"].toBool(),
               has_residual = context->saved_data["residual"].toBool();
    const at::Tensor values = in_channels_last(x),
                     gradients = in_channels_last(output_gradients[0]),
                     weight_gradient = at::empty_like(weight), bias_gradient = at::empty_like(bias);
    at::Tensor output, residual_gradient = has_residual ? gradients : at::Tensor(), input_gradient;
    if (has_residual && relu) {
      output = in_channels_last(saved[5]);
      residual_gradient = at::empty_like(values);
    }
    if (context->needs_input_grad(0)) input_gradient = at::empty_like(values);
    const at::Tensor coefficients = at::empty({x.size(1), 2}, mean.options());
    kernels::for_stored_type_of(x, [&](auto type) {
      using Stored = decltype(type);
      using T = kernels::Loaded<Stored>;
      at::Tensor scratch;
      const kernels::BatchNormBackward<Stored> arguments = {
          .norm = batch_norm_arguments<Stored>(values, weight, bias, relu, scratch),
          .means = mean.const_data_ptr<T>(),
          .inverse_stds = inverse_std.const_data_ptr<T>(),
          .output_gradients = kernels::read_data<Stored>(gradients),
          .output = kernels::read_data<Stored>(output),
          .residual_gradient =
              output.defined() ? kernels::write_data<Stored>(residual_gradient) : nullptr,
          .coefficients = coefficients.mutable_data_ptr<T>(),
          .weight_gradient = weight_gradient.mutable_data_ptr<T>(),
          .bias_gradient = bias_gradient.mutable_data_ptr<T>(),
          .gradient = kernels::write_data<Stored>(input_gradient)};
      kernels::run_on_gpu("batch norm's gradient", values, arguments);
    });
    const auto in_format_of_x = [&x](const at::Tensor& gradient) {
      return gradient.defined() ? gradient.contiguous(x.suggest_memory_format()) : gradient;
    };
    return {in_format_of_x(input_gradient),
            weight_gradient,
            bias_gradient,
            in_format_of_x(residual_gradient),
            {}};
  }
};

}  // namespace

at::Tensor batch_norm_relu(const at::Tensor& x, const BatchNorm& what) {
  RETINA_CHECK(x.dim() == 4 && x.size(1) >= 1, "shape ", x.sizes());
  RETINA_CHECK(what.eps >= 0, "got ", what.eps);
  RETINA_CHECK(what.momentum >= 0 && what.momentum <= 1, "got ", what.momentum);
  const at::ScalarType type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  for (const at::Tensor& of_channels :
       {what.weight, what.bias, what.running_mean, what.running_var}) {
    RETINA_CHECK(of_channels.dim() == 1 && of_channels.size(0) == x.size(1), of_channels.sizes());
    RETINA_CHECK(of_channels.scalar_type() == type && of_channels.device() == x.device());
  }
  RETINA_CHECK(what.running_mean.is_contiguous() && what.running_var.is_contiguous());
  const at::Tensor& residual = what.residual;
  RETINA_CHECK(
      !residual.defined() || (residual.sizes() == x.sizes() && residual.device() == x.device()),
      "residual ", residual.sizes());
  if (x.numel() == 0) {  // has no statistics
    const at::Tensor y = x + (what.weight + what.bias).sum();
    return residual.defined() ? y + residual : y;
  }
  if (is_left_to_libtorch(OwnKernel::kBatchNorm, x)) {
    at::Tensor y =
        at::batch_norm(x, what.weight, what.bias, what.running_mean, what.running_var,
                       /*training=*/true, what.momentum, what.eps, /*cudnn_enabled=*/true);
    if (residual.defined()) y += residual;
    return what.relu ? y.relu_() : y;
  }
  const Optional added = residual.defined() ? Optional(residual.to(x.scalar_type())) : std::nullopt;
  return BatchNormRelu::apply(x, what.weight, what.bias, added, what);
}

}  // namespace retina
