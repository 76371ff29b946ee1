#include "train/step/batch_statistics.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>

#include <initializer_list>
#include <utility>

namespace retina {

BatchStatistics::BatchStatistics(const Network& network) {
  if (network.config().frozen_norm()) return;
  Group means_and_variances, counts;
  for (const auto& [name, tensor] : state_of(network)) {
    const bool is_count = name.ends_with(".num_batches_tracked");
    if (!is_count && !name.ends_with(".running_mean") && !name.ends_with(".running_var")) continue;
    Group& group = is_count ? counts : means_and_variances;
    group.values.push_back(tensor);
    group.kept.push_back(tensor.clone());
  }
  for (Group* group : {&means_and_variances, &counts}) {
    if (!group->values.empty()) groups_.push_back(std::move(*group));
  }
}

void BatchStatistics::keep() {
  const at::NoGradGuard no_grad;
  for (Group& group : groups_) at::_foreach_copy_(group.kept, group.values);
}

void BatchStatistics::restore() {
  const at::NoGradGuard no_grad;
  for (Group& group : groups_) at::_foreach_copy_(group.values, group.kept);
}

}  // namespace retina
