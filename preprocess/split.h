// --split: one annotation file becomes two sets, to train and to validate on.
#pragma once

#include <string>
#include <vector>

#include "shared/coco/instances.h"

namespace retina {

// One of the two. An image belongs to the training set when xxh3(its file name) / 2^64 is below
// `train_share`: an image that is added later moves no other.
struct SplitPart {
  double train_share = 1;
  bool is_train = true;

  std::string folder() const { return is_train ? "train" : "validation"; }
  std::string text() const;  // "train 0.9"
  bool holds(const std::string& file_name) const;
};

// Drops the images of the other part, and their boxes or classes (`image_labels`, empty where
// there are none). Throws kConfig, beginning with `name`, when one of the two would be empty.
void keep_part(Instances& instances, std::vector<int>& image_labels, const SplitPart& part,
               const std::string& name);

}  // namespace retina
