// retina-convert --import: weights of torchvision become a checkpoint of ours.
#pragma once

#include <optional>
#include <string>

#include "shared/model/config.h"

namespace retina {

struct ImportOptions {
  std::string weights = {};  // torchvision's (.pth)
  std::string output = {};   // the checkpoint, written
  // What the classes are called: an annotations file or "coco"; empty: COCO's for 91 rows. Of a
  // classifier, whose rows they name in order, as read_class_names (categories.h) has it.
  std::string categories = {};
  // Added to the variance in batch norm; unset: 0 for torchvision's published v1 weights (91 rows),
  // else 1e-5.
  std::optional<double> norm_eps = {};
  // What the weights do not show, the task above all; stored in the checkpoint.
  ModelConfig config = {};
  bool overwrite = false;  // replace an output that was made differently
};

// Reads, recognises, selects the class rows, checks that every tensor has its place, writes the
// checkpoint. Returns what to print: one line when the output already exists, from the same inputs.
// Throws kNoInput (a file is missing), kData (not a file that can be imported), kConfig (classes
// and categories differ; the output exists and was made differently), kCannotCreate, kIo.
std::string import_weights(const ImportOptions& options);

}  // namespace retina
