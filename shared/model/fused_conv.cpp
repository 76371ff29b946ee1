#include "shared/model/fused_conv.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/cudnn_convolution_add_relu.h>
#include <ATen/ops/cudnn_convolution_relu.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/ops/bias_relu.h"

namespace retina {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Optional = std::optional<at::Tensor>;

Optional optional(const at::Tensor& tensor) {
  return tensor.defined() ? Optional(tensor) : std::nullopt;
}

class ConvReluFunction : public torch::autograd::Function<ConvReluFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const Optional& bias, const Optional& residual, std::int64_t stride,
                            std::int64_t padding) {
    const Optional shift = bias ? Optional(bias->to(x.scalar_type())) : bias;
    const at::Tensor y =
        residual ? at::cudnn_convolution_add_relu(x, weight, *residual, /*alpha=*/1, shift,
                                                  {stride, stride}, {padding, padding}, {1, 1}, 1)
                 : at::cudnn_convolution_relu(x, weight, shift, {stride, stride},
                                              {padding, padding}, {1, 1}, 1);
    context->save_for_backward({x, weight, y});
    auto& saved = context->saved_data;
    saved["stride"] = stride;
    saved["padding"] = padding;
    saved["bias"] = bias && bias->requires_grad();
    saved["residual"] = residual && residual->requires_grad();
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    const variable_list tensors = context->get_saved_variables();
    const at::Tensor &x = tensors[0], &weight = tensors[1], &y = tensors[2];
    auto& saved = context->saved_data;
    const std::int64_t stride = saved["stride"].toInt(), padding = saved["padding"].toInt();
    const BiasReluGradients passed =
        bias_relu_backward(y, output_gradients[0], saved["bias"].toBool());
    const auto gradients = at::convolution_backward(
        passed.input, x, weight, /*bias_sizes=*/std::nullopt, {stride, stride}, {padding, padding},
        /*dilation=*/{1, 1}, /*transposed=*/false, /*output_padding=*/{0, 0}, /*groups=*/1,
        {context->needs_input_grad(0), context->needs_input_grad(1), false});
    return {std::get<0>(gradients),
            std::get<1>(gradients),
            passed.bias,
            saved["residual"].toBool() ? passed.input : at::Tensor(),
            {},
            {}};
  }
};

at::Tensor convolved(const ConvRelu& c, const at::Tensor& x, const at::Tensor& weight) {
  return at::conv2d(x, weight, {}, c.stride, c.padding);
}
at::Tensor unfused_conv_relu(const ConvRelu& c) {
  return bias_relu(convolved(c, c.x, c.weight),
                   {.bias = c.bias, .residual = c.residual, .relu = true});
}

at::Tensor random_like(const at::Tensor& tensor) {
  return tensor.defined() ? at::empty_like(tensor).normal_() : tensor;
}

// Of values about 1.
double spacing(at::ScalarType type) {
  switch (type) {
    case at::kBFloat16:
      return std::ldexp(1, -7);
    case at::kHalf:
      return std::ldexp(1, -10);
    case at::kFloat:
      return std::ldexp(1, -23);
    default:
      RETINA_CHECK(type == at::kDouble, at::toString(type));
      return std::ldexp(1, -52);
  }
}

// How far both forms may be apart, each value.
at::Tensor allowed_difference(const ConvRelu& c) {
  const at::ScalarType type = c.x.scalar_type(),
                       wide = type == at::kDouble ? at::kDouble : at::kFloat;
  at::Tensor terms = convolved(c, c.x, c.weight).to(wide).abs_();
  if (c.bias.defined()) terms += c.bias.to(wide).abs().view({1, -1, 1, 1});
  if (c.residual.defined()) terms += c.residual.to(wide).abs();
  const bool rounds_products = type == at::kFloat && at::globalContext().allowTF32CuDNN();
  const double of_products = 64 * spacing(wide) + (rounds_products ? 8 * std::ldexp(1, -10) : 0);
  // The root of the sum of squared products: as roundings add up that do not know each other.
  const at::Tensor squares =
      convolved(c, c.x.to(wide).square(), c.weight.to(wide).square()).clamp_min_(0);
  return 2 * spacing(type) * terms + of_products * squares.sqrt_();
}

std::string shape_text(const ConvRelu& c) {
  return cat(c.weight.size(2), "x", c.weight.size(2), " convolution of ",
             at::toString(c.x.scalar_type()), " [", c.x.size(0), ", ", c.x.size(1), ", ",
             c.x.size(2), ", ", c.x.size(3), "] to ", c.weight.size(0), " channels, stride ",
             c.stride, c.residual.defined() ? ", with a residual" : "");
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

struct ScopeState {
  bool fuses = false;
  FusedConvCheck* check = nullptr;
};
thread_local ScopeState scope_state;

}  // namespace

at::Tensor fused_conv_relu(const ConvRelu& c) {
  return ConvReluFunction::apply(c.x, c.weight, optional(c.bias), optional(c.residual), c.stride,
                                 c.padding);
}

void FusedConvCheck::compare(const ConvRelu& c) {
  if (!problem_.empty() || !seen_.insert(shape_text(c)).second) return;
  const at::NoGradGuard no_grad;
  std::string problem;
  try {
    problem = problem_of(c);
  } catch (const c10::Error& refusal) {
    problem = first_line(refusal.what_without_backtrace());
  }
  if (!problem.empty()) problem_ = cat(shape_text(c), ": ", problem);
}

std::string FusedConvCheck::problem_of(const ConvRelu& given) {
  ConvRelu c = given;
  c.x = random_like(given.x);
  c.weight = random_like(given.weight) /
             std::sqrt(static_cast<double>(given.weight.numel() / given.weight.size(0)));
  c.bias = random_like(given.bias);
  c.residual = random_like(given.residual);
  const at::Tensor difference = (fused_conv_relu(c) - unfused_conv_relu(c)).abs();
  const double share = (difference / allowed_difference(c)).max().item<double>();
  if (!(share <= 1)) {
    return cat("differs from the separate calls ", fixed(share, 1),
               " times as much as rounding may");
  }
  largest_share_ = std::max(largest_share_, share);
  c.x.select(2, 0).select(2, 0).fill_(std::nan(""));  // of each image the first pixel
  const at::Tensor is_lost = fused_conv_relu(c).isnan() != unfused_conv_relu(c).isnan();
  return is_lost.any().item<bool>() ? "turns NaN into a number" : "";
}

FusedConvScope::FusedConvScope(bool fuses, FusedConvCheck* check)
    : fused_before_(scope_state.fuses), check_before_(scope_state.check) {
  scope_state = {.fuses = fuses, .check = check};
}

FusedConvScope::~FusedConvScope() {
  scope_state = {.fuses = fused_before_, .check = check_before_};
}

std::optional<at::Tensor> fused_in_scope(const ConvRelu& given) {
  if (!scope_state.fuses && scope_state.check == nullptr) return std::nullopt;
  ConvRelu c = given;
  const bool casts = at::autocast::is_autocast_enabled(at::kCUDA);
  const c10::impl::ExcludeDispatchKeyGuard as_they_are(c10::DispatchKey::AutocastCUDA);
  if (casts) {
    const at::ScalarType type = at::autocast::get_autocast_dtype(at::kCUDA);
    c.x = at::autocast::cached_cast(type, c.x, at::kCUDA);
    c.weight = at::autocast::cached_cast(type, c.weight, at::kCUDA);
  }
  if (c.residual.defined()) c.residual = c.residual.to(c.x.scalar_type());
  if (scope_state.fuses) return fused_conv_relu(c);
  scope_state.check->compare(c);
  return std::nullopt;
}

}  // namespace retina
