// The names of a step's images in messages.
#pragma once

#include <string>
#include <vector>

#include "shared/data/batch.h"
#include "shared/shard/image_index.h"
#include "train/plan/epoch_plan.h"

namespace retina {

// Returns the name of a sample's image for people, see shared/base/printable.h; for a tile with its
// place.
std::string image_name(const Sample& sample);

// Returns the images of a step on all ranks, separated by commas; `index` is that of the training
// set.
std::string image_names(const GlobalStep& step, const ImageIndex& index);

// Returns the images of a batch that count.
std::string image_names(const Batch& batch);

// Warns of the first box that is not trained on, with its image: once for all ranks' boxes.
class IgnoredBoxWarning {
 public:
  // Checks a batch that this rank is about to train on.
  void check(const Batch& batch);
  // Returns whether this rank has warned, or knows that another has.
  bool is_made() const { return is_made_; }
  void agree(bool any_rank_warned) { is_made_ = any_rank_warned; }

 private:
  bool is_made_ = false;
};

}  // namespace retina
