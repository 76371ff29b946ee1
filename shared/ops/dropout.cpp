#include "shared/ops/dropout.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "shared/ops/dispatch.h"
#include "shared/ops/own_kernels.h"

namespace retina {
namespace kernels {
namespace {

template <class Stored>
void dropout_cpu(const Dropout<Stored>& d) {
  constexpr std::int64_t kValues = 1 << 12;  // fewer do not pay for a thread
  at::parallel_for(
      0, d.image_count * d.value_count, kValues, [&d](std::int64_t begin, std::int64_t end) {
        while (begin < end) {
          const std::int64_t image = begin / d.value_count, first = image * d.value_count;
          const std::int64_t stop = std::min(end, first + d.value_count);
          for (; begin < stop; ++begin) {
            put_dropout(d, image, static_cast<std::uint32_t>(begin - first));
          }
        }
      });
}

}  // namespace
}  // namespace kernels

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kMostValues = std::int64_t{1} << 32;  // of an image, and steps
constexpr int kMostLayers = 1 << 16;

at::Tensor masked(const at::Tensor& x, double p, const at::Tensor& slots, const DropoutDraw& draw) {
  if (is_replaced(OwnKernel::kDropout, x)) {
    return masked(x.cpu(), p, slots.cpu(), draw).to(x.device());
  }
  // The order of x where that is one of the two: nothing is copied.
  const at::MemoryFormat format = x.suggest_memory_format();
  const at::Tensor values = x.contiguous(format), image_slots = slots.contiguous();
  const at::Tensor out = at::empty_like(values);
  kernels::for_stored_type_of(x, [&](auto type) {
    using Stored = decltype(type);
    const kernels::Dropout<Stored> arguments = {
        .values = kernels::read_data<Stored>(values),
        .slots = image_slots.const_data_ptr<std::int64_t>(),
        .image_count = x.size(0),
        .value_count = x.numel() / x.size(0),
        .channel_count =
            format == at::MemoryFormat::Contiguous ? 1 : static_cast<std::uint32_t>(x.size(1)),
        .seed = draw.seed,
        .step = static_cast<std::uint32_t>(draw.step),
        .layer = static_cast<std::uint32_t>(draw.layer),
        .threshold = static_cast<std::uint64_t>(std::ceil(std::ldexp(p, 53))),
        .scale = static_cast<kernels::Loaded<Stored>>(1 / (1 - p)),
        .out = kernels::write_data<Stored>(out)};
    kernels::run_implementation("dropout", values, arguments, kernels::dropout_cpu<Stored>);
  });
  return out;
}

class Dropout : public torch::autograd::Function<Dropout> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& slots,
                            double p, const DropoutDraw& draw) {
    context->save_for_backward({slots});
    context->saved_data["p"] = p;
    context->saved_data["seed"] = static_cast<std::int64_t>(draw.seed);  // its bits
    context->saved_data["step"] = draw.step;
    context->saved_data["layer"] = std::int64_t{draw.layer};
    return masked(x, p, slots, draw);
  }

  // y is linear in x: dx is the dropout of dy.
  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    auto& saved = context->saved_data;
    const DropoutDraw draw = {.seed = static_cast<std::uint64_t>(saved["seed"].toInt()),
                              .step = saved["step"].toInt(),
                              .layer = static_cast<int>(saved["layer"].toInt())};
    const at::Tensor slots = context->get_saved_variables()[0];
    return {dropout(output_gradients[0], saved["p"].toDouble(), slots, draw), {}, {}, {}};
  }
};

}  // namespace

at::Tensor dropout(const at::Tensor& x, double p, const at::Tensor& slots,
                   const DropoutDraw& draw) {
  RETINA_CHECK(p >= 0 && p < 1, "got ", p);
  RETINA_CHECK(draw.step >= 0 && draw.step < kMostValues, "step ", draw.step);
  RETINA_CHECK(draw.layer >= 0 && draw.layer < kMostLayers, "layer ", draw.layer);
  RETINA_CHECK(x.dim() >= 1 && slots.dim() == 1 && slots.size(0) == x.size(0));
  RETINA_CHECK(slots.scalar_type() == at::kLong && slots.device() == x.device());
  if (p == 0 || x.numel() == 0) return x;
  RETINA_CHECK(x.numel() / x.size(0) < kMostValues, x.numel() / x.size(0), " values an image");
  return Dropout::apply(x, slots, p, draw);
}

}  // namespace retina
