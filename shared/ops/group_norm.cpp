#include "shared/ops/group_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/group_norm.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "shared/ops/dispatch.h"
#include "shared/ops/own_kernels.h"

namespace retina {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr at::MemoryFormat kChannelsLast = at::MemoryFormat::ChannelsLast;

// `values` is x in channels-last memory; `scratch` must live as long as the result.
template <class Stored>
kernels::GroupNorm<Stored> group_norm_arguments(const at::Tensor& values, std::int64_t group_count,
                                                const at::Tensor& weight, const at::Tensor& bias,
                                                at::Tensor& scratch) {
  using T = kernels::Loaded<Stored>;
  kernels::GroupNorm<Stored> norm = {.values = kernels::read_data<Stored>(values),
                                     .weight = weight.const_data_ptr<T>(),
                                     .bias = bias.const_data_ptr<T>(),
                                     .image_count = values.size(0),
                                     .pixel_count = values.size(2) * values.size(3),
                                     .channel_count = values.size(1),
                                     .group_count = group_count,
                                     .partials = nullptr};
  const std::int64_t chunk_px = kernels::group_norm_chunk_px(norm.pixel_count);
  scratch = at::empty(
      {norm.image_count, (norm.pixel_count + chunk_px - 1) / chunk_px, norm.channel_count, 2},
      values.options().dtype(at::kDouble));
  norm.partials = scratch.mutable_data_ptr<double>();
  return norm;
}

class GroupNormRelu : public torch::autograd::Function<GroupNormRelu> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& given_weight, const at::Tensor& given_bias,
                            std::int64_t group_count, double eps) {
    const at::Tensor weight = given_weight.contiguous(), bias = given_bias.contiguous();
    const at::Tensor values = x.contiguous(kChannelsLast);
    const at::Tensor out = at::empty_like(values);
    const at::Tensor mean = at::empty({x.size(0), group_count}, weight.options());
    const at::Tensor inverse_std = at::empty_like(mean);
    kernels::for_stored_type_of(x, [&](auto type) {
      using Stored = decltype(type);
      using T = kernels::Loaded<Stored>;
      at::Tensor scratch;
      const kernels::GroupNormForward<Stored> arguments = {
          .norm = group_norm_arguments<Stored>(values, group_count, weight, bias, scratch),
          .eps = eps,
          .means = mean.mutable_data_ptr<T>(),
          .inverse_stds = inverse_std.mutable_data_ptr<T>(),
          .out = kernels::write_data<Stored>(out)};
      kernels::run_on_gpu("group norm", values, arguments);
    });
    context->save_for_backward({x, weight, bias, mean, inverse_std});
    context->saved_data["group_count"] = group_count;
    return out.contiguous(x.suggest_memory_format());
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    RETINA_CHECK(!at::GradMode::is_enabled(), "the gradient of group_norm_relu has none itself");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &bias = saved[2], &mean = saved[3],
                     &inverse_std = saved[4];
    const at::Tensor values = x.contiguous(kChannelsLast),
                     gradients = output_gradients[0].contiguous(kChannelsLast),
                     input_gradient = at::empty_like(values),
                     weight_gradient = at::empty_like(weight), bias_gradient = at::empty_like(bias);
    const at::Tensor channel_sums =
        at::empty({x.size(0), x.size(1), 2}, x.options().dtype(at::kDouble));
    const at::Tensor coefficients = at::empty({x.size(0), mean.size(1), 2}, mean.options());
    kernels::for_stored_type_of(x, [&](auto type) {
      using Stored = decltype(type);
      using T = kernels::Loaded<Stored>;
      at::Tensor scratch;
      const kernels::GroupNormBackward<Stored> arguments = {
          .norm = group_norm_arguments<Stored>(values, context->saved_data["group_count"].toInt(),
                                               weight, bias, scratch),
          .means = mean.const_data_ptr<T>(),
          .inverse_stds = inverse_std.const_data_ptr<T>(),
          .output_gradients = kernels::read_data<Stored>(gradients),
          .channel_sums = channel_sums.mutable_data_ptr<double>(),
          .coefficients = coefficients.mutable_data_ptr<T>(),
          .weight_gradient = weight_gradient.mutable_data_ptr<T>(),
          .bias_gradient = bias_gradient.mutable_data_ptr<T>(),
          .gradient = kernels::write_data<Stored>(input_gradient)};
      kernels::run_on_gpu("group norm's gradient", values, arguments);
    });
    return {input_gradient.contiguous(x.suggest_memory_format()),
            weight_gradient,
            bias_gradient,
            {},
            {}};
  }
};

}  // namespace

at::Tensor group_norm_relu(const at::Tensor& x, std::int64_t group_count, const at::Tensor& weight,
                           const at::Tensor& bias, double eps) {
  RETINA_CHECK(x.dim() == 4, x.dim(), " dimensions");
  const std::int64_t channels = x.size(1);
  RETINA_CHECK(group_count >= 1 && channels >= 1 && channels % group_count == 0, channels,
               " channels in ", group_count, " groups");
  RETINA_CHECK(eps >= 0, "got ", eps);
  const at::ScalarType type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  for (const at::Tensor& parameter : {weight, bias}) {
    RETINA_CHECK(parameter.dim() == 1 && parameter.size(0) == channels);
    RETINA_CHECK(parameter.scalar_type() == type && parameter.device() == x.device());
  }
  // LibTorch's has no gradient of nothing.
  if (x.numel() == 0) return x + (weight + bias).sum();
  const auto by_libtorch = [&](const at::Tensor& input) {
    return at::group_norm(input, group_count, weight, bias, eps).relu_();
  };
  if (x.is_cpu()) return by_libtorch(x);
  // On a GPU it wants parameters of x's type, and gives row-major memory.
  if (is_left_to_libtorch(OwnKernel::kGroupNorm, x)) {
    return by_libtorch(x.to(type)).to(x.scalar_type()).contiguous(x.suggest_memory_format());
  }
  return GroupNormRelu::apply(x, weight, bias, group_count, eps);
}

}  // namespace retina
