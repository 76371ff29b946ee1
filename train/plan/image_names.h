// What messages say of the images of a step.
#pragma once

#include <string>
#include <vector>

#include "shared/data/batch.h"
#include "shared/shard/image_index.h"
#include "train/plan/epoch_plan.h"

namespace retina {

// What people call the image of a sample, see shared/base/printable.h; of a tile with its place.
std::string image_name(const Sample& sample);

// All ranks' images of a step, separated by commas; `index` is that of the training set.
std::string image_names(const GlobalStep& step, const ImageIndex& index);

// Those of a batch that count.
std::string image_names(const Batch& batch);

// Warns of the first box that is not trained on, with its image: once, of all ranks' boxes.
class IgnoredBoxWarning {
 public:
  // What this rank is about to train on.
  void look_at(const Batch& batch);
  // Whether it has warned, and what the ranks know of each other's warnings.
  bool is_told() const { return is_told_; }
  void agree(bool any_rank_told) { is_told_ = any_rank_told; }

 private:
  bool is_told_ = false;
};

}  // namespace retina
