#include "shared/ops/group_norm.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "shared/ops/dispatch.h"
#include "shared/ops/group_norm_formulas.h"
#include "shared/ops/kernels.h"
#include "shared/ops/own_kernels.h"

namespace retina {
namespace kernels {
namespace {

// --- On the CPU: a group of an image after the other, each in one thread and in order ------------

struct GroupPlace {
  std::int64_t image, group;
  std::int64_t first_channel;
  std::int64_t first_value;  // of x, at its first pixel
};

template <class Stored, class Body>
void for_each_group(const GroupNorm<Stored>& norm, const Body& body) {
  at::parallel_for(
      0, norm.image_count * norm.group_count, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t image = i / norm.group_count, group = i % norm.group_count;
          const std::int64_t channel = group * norm.channels_per_group();
          body(GroupPlace{image, group, channel,
                          image * norm.pixel_count * norm.channel_count + channel});
        }
      });
}

// Calls body(number of the channel in the group, place of the value in x), pixel by pixel.
template <class Stored, class Body>
void for_each_value(const GroupNorm<Stored>& norm, const GroupPlace& place, const Body& body) {
  const std::int64_t channels = norm.channels_per_group();
  for (std::int64_t pixel = 0; pixel < norm.pixel_count; ++pixel) {
    const std::int64_t first = place.first_value + pixel * norm.channel_count;
    for (std::int64_t d = 0; d < channels; ++d) body(d, first + d);
  }
}

template <class Stored>
void group_norm_forward_cpu(const GroupNormForward<Stored>& f) {
  using T = Loaded<Stored>;
  const GroupNorm<Stored>& norm = f.norm;
  const auto value_count = static_cast<double>(norm.pixel_count * norm.channels_per_group());
  for_each_group(norm, [&](const GroupPlace& place) {
    double sum = 0, squares = 0;
    for_each_value(norm, place, [&](std::int64_t, std::int64_t at) {
      sum += static_cast<double>(loaded(norm.values[at]));
    });
    const double mean = sum / value_count;
    for_each_value(norm, place, [&](std::int64_t, std::int64_t at) {
      const double distance = static_cast<double>(loaded(norm.values[at])) - mean;
      squares += distance * distance;
    });
    const std::int64_t group = place.image * norm.group_count + place.group;
    f.means[group] = static_cast<T>(mean);
    f.inverse_stds[group] = static_cast<T>(1 / std::sqrt(squares / value_count + f.eps));
    for_each_value(norm, place, [&](std::int64_t d, std::int64_t at) {
      const ChannelNorm<T> channel =
          channel_norm(norm, place.first_channel + d, f.means[group], f.inverse_stds[group]);
      store(channel.output(loaded(norm.values[at])), f.out + at);
    });
  });
}

template <class Stored>
void group_norm_backward_cpu(const GroupNormBackward<Stored>& b) {
  using T = Loaded<Stored>;
  const GroupNorm<Stored>& norm = b.norm;
  const std::int64_t channels = norm.channels_per_group();
  for_each_group(norm, [&](const GroupPlace& place) {
    const std::int64_t group = place.image * norm.group_count + place.group;
    const auto channel_of = [&](std::int64_t d) {
      return channel_norm(norm, place.first_channel + d, b.means[group], b.inverse_stds[group]);
    };
    double* const sums =
        b.channel_sums + 2 * (place.image * norm.channel_count + place.first_channel);
    for (std::int64_t i = 0; i < 2 * channels; ++i) sums[i] = 0;
    for_each_value(norm, place, [&](std::int64_t d, std::int64_t at) {
      const ChannelNorm<T> channel = channel_of(d);
      const T x = loaded(norm.values[at]);
      const T gradient = channel.through_relu(x, loaded(b.output_gradients[at]));
      sums[2 * d] += static_cast<double>(gradient);
      sums[2 * d + 1] += static_cast<double>(gradient * channel.normalised(x));
    });
    const GroupGradient<T> whole =
        group_gradient(sums, norm.weight + place.first_channel, channels,
                       channels * norm.pixel_count, b.inverse_stds[group]);
    for_each_value(norm, place, [&](std::int64_t d, std::int64_t at) {
      store(whole.input_gradient(channel_of(d), loaded(norm.values[at]),
                                 loaded(b.output_gradients[at])),
            b.gradient + at);
    });
  });
  for (std::int64_t c = 0; c < norm.channel_count; ++c) put_parameter_gradients(b, c);
}

}  // namespace
}  // namespace kernels

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
  if (values.is_cuda()) {
    const std::int64_t chunk_px = kernels::group_norm_chunk_px(norm.pixel_count);
    scratch = at::empty(
        {norm.image_count, (norm.pixel_count + chunk_px - 1) / chunk_px, norm.channel_count, 2},
        values.options().dtype(at::kDouble));
    norm.partials = scratch.mutable_data_ptr<double>();
  }
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
    if (x.numel() > 0) {
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
        kernels::run_implementation("group norm", values, arguments,
                                    kernels::group_norm_forward_cpu<Stored>,
                                    kernels::group_norm_forward_cuda<Stored>);
      });
    }
    context->save_for_backward({x, weight, bias, mean, inverse_std});
    context->saved_data["group_count"] = group_count;
    return out.contiguous(x.suggest_memory_format());
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    RETINA_CHECK(!at::GradMode::is_enabled(), "the gradient of group_norm_relu has none itself");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &bias = saved[2], &mean = saved[3],
                     &inverse_std = saved[4];
    if (x.numel() == 0) {
      return {at::empty_like(x), at::zeros_like(weight), at::zeros_like(bias), {}, {}};
    }
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
      kernels::run_implementation("group norm's gradient", values, arguments,
                                  kernels::group_norm_backward_cpu<Stored>,
                                  kernels::group_norm_backward_cuda<Stored>);
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
  if (is_replaced(OwnKernel::kGroupNorm, x)) {
    const at::Tensor y = at::group_norm(x.to(type), group_count, weight, bias, eps);
    return y.relu().to(x.scalar_type()).contiguous(x.suggest_memory_format());
  }
  return GroupNormRelu::apply(x, weight, bias, group_count, eps);
}

}  // namespace retina
