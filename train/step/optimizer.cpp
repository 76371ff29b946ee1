#include "train/step/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>

#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "shared/base/error.h"

namespace retina {
namespace {

// Returns the names of the modules whose weight has one dimension: normalisation layers (a
// convolution's has four).
std::set<std::string> normalisation_modules(const NamedTensors& parameters) {
  std::set<std::string> modules;
  for (const auto& [name, value] : parameters) {
    if (name.ends_with(".weight") && value.dim() == 1) {
      modules.insert(name.substr(0, name.rfind('.')));
    }
  }
  return modules;
}

// Returns whether the same index is at the same place in memory: the stride of a side of 1 does not
// matter.
bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  for (std::int64_t i = 0; i < a.dim(); ++i) {
    if (a.size(i) != b.size(i) || (a.size(i) > 1 && a.stride(i) != b.stride(i))) return false;
  }
  return a.dim() == b.dim();
}

// Returns the same memory as one row: element-wise kernels copy tensors that are not contiguous.
std::vector<at::Tensor> as_rows(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> rows;
  rows.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    rows.push_back(tensor.detach().as_strided({tensor.numel()}, {1}));
  }
  return rows;
}

// The names under which a kind stores group.first and group.second; nullptr: none.
struct StateNames {
  const char *first, *second;
};
StateNames state_names(const OptimizerOptions& options) {
  switch (options.kind) {
    case OptimizerKind::kSgd:
      return {options.momentum > 0 ? "momentum_buffer." : nullptr, nullptr};
    case OptimizerKind::kRmsprop:
      return {nullptr, "square_avg."};
    default:
      return {"exp_avg.", "exp_avg_sq."};
  }
}

}  // namespace

Optimizer::Optimizer(NamedTensors parameters, const OptimizerOptions& options) : options_(options) {
  const auto norms = normalisation_modules(parameters);
  for (const auto& parameter : parameters) {
    const bool norm = norms.count(parameter.name.substr(0, parameter.name.rfind('.'))) != 0;
    add(parameter,
        norm ? options.norm_weight_decay.value_or(options.weight_decay) : options.weight_decay);
  }
}

void Optimizer::add(const NamedTensor& parameter, double weight_decay) {
  Group* group = nullptr;
  for (auto& candidate : groups_) {
    if (candidate.weight_decay == weight_decay) group = &candidate;
  }
  if (group == nullptr) {
    group = &groups_.emplace_back();
    group->weight_decay = weight_decay;
  }
  const at::Tensor value = parameter.tensor.detach();
  group->names.push_back(parameter.name);
  group->values.push_back(parameter.tensor);
  const StateNames names = state_names(options_);
  if (names.first != nullptr) group->first.push_back(at::zeros_like(value));
  if (names.second != nullptr) {
    group->second.push_back(at::zeros_like(value));
    const double count =
        options_.kind == OptimizerKind::kRmsprop ? std::numeric_limits<double>::infinity() : 0;
    group->update_counts.push_back(at::full({}, count, value.options().dtype(at::kFloat)));
  }
}

void Optimizer::check_layout() const {
  for (const auto& group : groups_) {
    for (std::size_t i = 0; i < group.values.size(); ++i) {
      const at::Tensor& value = group.values[i];
      RETINA_CHECK(value.grad().defined(), group.names[i], " has no gradient");
      RETINA_CHECK(same_layout(value, value.grad()) &&
                       (group.first.empty() || same_layout(value, group.first[i])) &&
                       (group.second.empty() || same_layout(value, group.second[i])),
                   group.names[i], ": strides of parameter, gradient and state differ");
    }
  }
}

at::Tensor clip_divisor(const at::Tensor& norm, double max_norm) {
  return norm.add(1e-6).div(max_norm).clamp_min(1).to(at::kFloat);
}

void Optimizer::step(double learning_rate, const UpdateGuard& guard) {
  const at::NoGradGuard no_grad;
  const auto given = [](const at::Tensor& value) {
    return value.defined() ? std::optional(value) : std::nullopt;
  };
  const std::optional<at::Tensor> divisor = given(guard.divisor), skip = given(guard.skip);
  if (!std::exchange(layout_checked_, true)) check_layout();
  for (auto& group : groups_) {
    std::vector<at::Tensor> own;
    own.reserve(group.values.size());
    for (const auto& value : group.values) own.push_back(value.grad());
    const std::vector<at::Tensor> values = as_rows(group.values), gradients = as_rows(own),
                                  first = as_rows(group.first), second = as_rows(group.second);
    if (options_.kind == OptimizerKind::kSgd) {
      // Buffers start at zero, so the first step needs no special case: v = momentum 0 + g.
      at::_fused_sgd_(values, gradients, first, group.weight_decay, options_.momentum,
                      learning_rate, /*dampening=*/0, /*nesterov=*/false, /*maximize=*/false,
                      /*is_first_step=*/false, divisor, skip);
      continue;
    }
    if (options_.kind == OptimizerKind::kRmsprop) {
      // Adam without a first moment (beta1 = 0) and without the corrections of a young average (t
      // is infinite). The kernel stores the first moment, which is g again, over the gradient, so
      // that only the memory that the rule needs is touched. It reads an element before it writes
      // it.
      at::_fused_adam_(values, gradients, /*exp_avgs=*/gradients, second, /*max_exp_avg_sqs=*/{},
                       group.update_counts, learning_rate, /*beta1=*/0, options_.rho,
                       group.weight_decay, options_.rmsprop_epsilon, /*amsgrad=*/false,
                       /*maximize=*/false, divisor, skip);
      continue;
    }
    for (auto& count : group.update_counts) count.add_(1);  // the kernels want t, counted from 1
    if (options_.kind == OptimizerKind::kAdam) {
      at::_fused_adam_(values, gradients, first, second, /*max_exp_avg_sqs=*/{},
                       group.update_counts, learning_rate, options_.beta1, options_.beta2,
                       group.weight_decay, options_.epsilon, /*amsgrad=*/false, /*maximize=*/false,
                       divisor, skip);
    } else {
      at::_fused_adamw_(values, gradients, first, second, /*max_exp_avg_sqs=*/{},
                        group.update_counts, learning_rate, options_.beta1, options_.beta2,
                        group.weight_decay, options_.epsilon, /*amsgrad=*/false,
                        /*maximize=*/false, divisor, skip);
    }
    if (skip) at::_foreach_add_(group.update_counts, *skip, /*alpha=*/-1);
  }
}

NamedTensors Optimizer::state() const {
  const StateNames names = state_names(options_);
  NamedTensors list;
  for (const auto& group : groups_) {
    for (std::size_t i = 0; i < group.names.size(); ++i) {
      if (names.first != nullptr) list.push_back({names.first + group.names[i], group.first[i]});
      if (names.second != nullptr) list.push_back({names.second + group.names[i], group.second[i]});
    }
  }
  return list;
}

void Optimizer::load_state(const NamedTensors& state, std::int64_t updates_done,
                           const std::string& source) {
  const at::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> given;
  for (const auto& item : state) given.emplace(item.name, item.tensor);
  for (const auto& target : this->state()) {
    const auto found = given.find(target.name);
    if (found == given.end() || found->second.sizes() != target.tensor.sizes()) {
      throw Error(ErrorKind::kConfig,
                  cat(source, ": optimizer state ", target.name,
                      found == given.end() ? " is missing" : " has another shape"),
                  "resume with the optimizer and the trainable layers that wrote the checkpoint");
    }
    target.tensor.copy_(found->second);
  }
  if (options_.kind == OptimizerKind::kRmsprop) return;  // counts no updates
  for (auto& group : groups_) {
    for (auto& count : group.update_counts) count.fill_(static_cast<double>(updates_done));
  }
}

}  // namespace retina
