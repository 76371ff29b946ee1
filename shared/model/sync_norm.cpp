#include "shared/model/sync_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/batch_norm_update_stats.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/error.h"

namespace retina {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Data for backward besides tensors.
struct SavedNorm : torch::CustomClassHolder {
  SavedNorm(SyncNorm given, double count) : options(std::move(given)), value_count(count) {}
  SyncNorm options;
  double value_count;  // of a channel, over all ranks
};

// Sums values [M] f64 on the host over the ranks.
void sum_over_ranks(const at::Tensor& values, const SyncNorm& options, const char* direction) {
  options.ranks->sum(
      std::span(values.mutable_data_ptr<double>(), static_cast<std::size_t>(values.numel())),
      cat(options.name, " ", direction));
}

at::Tensor host_f64(const at::Tensor& tensor) {
  return tensor.to(at::kCPU, at::kDouble);
}

struct Statistics {
  double count = 0;      // values of a channel
  at::Tensor mean, var;  // [C] f64 on the host; biased
};

// Returns the statistics over all ranks. Each rank's part becomes sums around a point that all
// ranks share, the running mean: near the mean once training is under way, so that hardly anything
// cancels when the sums are merged.
Statistics statistics_over_ranks(const at::Tensor& input, const at::Tensor& running_mean,
                                 const SyncNorm& options) {
  const std::int64_t channels = running_mean.size(0);
  const at::Tensor origin = host_f64(running_mean);
  at::Tensor packed = at::zeros({2 * channels + 1}, at::kDouble);  // sums, sums of squares, count
  if (input.numel() > 0) {
    // The type of the running statistics decides that of the result. They are copied, since they
    // would move.
    const auto [mean, var] = at::batch_norm_update_stats(
        input, at::zeros_like(running_mean), at::zeros_like(running_mean), /*momentum=*/0);
    const auto count = static_cast<double>(input.numel() / channels);
    const at::Tensor distance = host_f64(mean) - origin;
    packed = at::cat({distance * count, (host_f64(var) + distance * distance) * count,
                      at::full({1}, count, at::kDouble)});
  }
  sum_over_ranks(packed, options, "forward");
  Statistics result;
  result.count = packed[2 * channels].item<double>();
  const double divisor = std::max(result.count, 1.0);  // no image anywhere: zeros, never used
  const at::Tensor distance = packed.slice(0, 0, channels) / divisor;
  const at::Tensor square = packed.slice(0, channels, 2 * channels) / divisor;
  result.mean = origin + distance;
  result.var = (square - distance * distance).clamp_min(0);
  return result;
}

void move_running(const at::Tensor& running, const at::Tensor& value, double momentum) {
  running.mul_(1 - momentum).add_(value.to(running.options()), momentum);
}

// Returns a row that broadcasts over [N, C, H, W].
at::Tensor per_channel(const at::Tensor& values) {
  return values.view({1, -1, 1, 1});
}

class SyncBatchNorm : public torch::autograd::Function<SyncBatchNorm> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const at::Tensor& bias,
                            const at::Tensor& running_mean, const at::Tensor& running_var,
                            const SyncNorm& options) {
    const Statistics found = statistics_over_ranks(input, running_mean, options);
    if (found.count > 0) {
      const double unbiased = found.count / std::max(found.count - 1, 1.0);
      move_running(running_mean, found.mean, options.momentum);
      move_running(running_var, found.var * unbiased, options.momentum);
    }
    const at::Tensor mean = found.mean.to(weight.options());
    const at::Tensor var = found.var.to(weight.options());
    context->save_for_backward({input, weight, mean, var});
    context->saved_data["norm"] =
        c10::IValue::make_capsule(c10::make_intrusive<SavedNorm>(options, found.count));
    if (input.numel() == 0) return at::empty_like(input);
    // With known statistics this is the kernel of evaluation.
    return at::batch_norm(input, weight, bias, mean, var, /*training=*/false, /*momentum=*/0,
                          options.eps, /*cudnn_enabled=*/true);
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &weight = saved[1], &mean = saved[2], &var = saved[3];
    const auto norm =
        c10::static_intrusive_pointer_cast<SavedNorm>(context->saved_data["norm"].toCapsule());
    const double eps = norm->options.eps;
    at::Tensor gradient = output_gradients[0].contiguous(input.suggest_memory_format());
    // Sums over this rank of dy x_hat and dy: the gradients of weight and bias.
    at::Tensor weight_gradient = at::zeros_like(weight), bias_gradient = at::zeros_like(weight);
    if (input.numel() > 0) {
      const at::Tensor none = at::empty({0}, mean.options());  // CUDA requires it to be defined
      std::tie(std::ignore, weight_gradient, bias_gradient) =
          at::native_batch_norm_backward(gradient, input, weight, mean, var, none, none,
                                         /*train=*/false, eps, {false, true, true});
    }
    at::Tensor input_gradient;
    if (context->needs_input_grad(0)) {
      at::Tensor sums = at::cat({host_f64(weight_gradient), host_f64(bias_gradient)});
      sum_over_ranks(sums, norm->options, "backward");
      sums.div_(std::max(norm->value_count, 1.0));
      const std::int64_t channels = weight.size(0);
      const at::Tensor inverse_std = (host_f64(var) + eps).rsqrt();
      const at::Tensor scale = host_f64(weight) * inverse_std;
      // dx = scale (dy - mean(dy) - x_hat mean(dy x_hat)), x_hat = (x - mean) inverse_std: linear
      // in x plus scale dy.
      const at::Tensor slope = -scale * inverse_std * sums.slice(0, 0, channels);
      const at::Tensor offset =
          -scale * sums.slice(0, channels, 2 * channels) - slope * host_f64(mean);
      const auto row = [&](const at::Tensor& values) {
        return per_channel(values.to(weight.options()));
      };
      input_gradient = at::addcmul(row(offset), input, row(slope));
      input_gradient.addcmul_(gradient, row(scale));
      input_gradient = input_gradient.to(input.scalar_type());
    }
    return {input_gradient, weight_gradient, bias_gradient, {}, {}, {}};
  }
};

}  // namespace

at::Tensor sync_batch_norm(const at::Tensor& input, const at::Tensor& weight,
                           const at::Tensor& bias, const at::Tensor& running_mean,
                           const at::Tensor& running_var, const SyncNorm& options) {
  RETINA_CHECK(options.ranks != nullptr);
  RETINA_CHECK(input.dim() == 4 && input.size(1) == weight.size(0));
  return SyncBatchNorm::apply(input, weight, bias, running_mean, running_var, options);
}

}  // namespace retina
