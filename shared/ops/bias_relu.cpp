#include "shared/ops/bias_relu.h"

#include <ATen/Parallel.h>
#include <ATen/ops/threshold_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <type_traits>

#include "shared/ops/dispatch.h"
#include "shared/ops/kernels.h"

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

void apply_in_place(const at::Tensor& x, const at::Tensor& bias, const at::Tensor& residual,
                    bool relu) {
  const at::MemoryFormat format = x.suggest_memory_format();
  RETINA_CHECK(x.is_contiguous(format), "strides ", x.strides());
  const at::Tensor added = residual.defined() ? residual.contiguous(format) : residual;
  kernels::for_stored_type_of(x, [&](auto type) {
    using Stored = decltype(type);
    using Element = kernels::Element<Stored>;
    using T = kernels::Loaded<Stored>;
    const at::Tensor shift =
        bias.defined() ? bias.to(c10::CppTypeToScalarType<T>::value).contiguous() : bias;
    const kernels::BiasRelu<Stored> arguments = {
        .values = reinterpret_cast<Stored*>(x.mutable_data_ptr<Element>()),
        .bias = shift.defined() ? shift.const_data_ptr<T>() : nullptr,
        .residual = added.defined()
                        ? reinterpret_cast<const Stored*>(added.const_data_ptr<Element>())
                        : nullptr,
        .count = x.numel(),
        .channel_count = x.size(1),
        .channel_stride = format == at::MemoryFormat::ChannelsLast ? 1 : x.size(2) * x.size(3),
        .relu = relu};
    kernels::run_implementation("bias and ReLU", x, arguments, kernels::bias_relu_cpu<Stored>,
                                kernels::bias_relu_cuda<Stored>);
  });
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
    at::Tensor gradient = output_gradients[0];
    if (saved["relu"].toBool()) {
      gradient = at::threshold_backward(gradient, context->get_saved_variables()[0], 0);
    }
    const at::ScalarType wide = gradient.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    return {
        gradient,
        saved["bias"].toBool() ? gradient.sum({0, 2, 3}, /*keepdim=*/false, wide) : at::Tensor(),
        saved["residual"].toBool() ? gradient : at::Tensor(),
        {}};
  }
};

}  // namespace

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
