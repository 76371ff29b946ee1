// retina-convert --import: turns weights of torchvision into a checkpoint of ours.
#pragma once

#include <optional>
#include <string>

#include "shared/model/config.h"

namespace retina {

struct ImportOptions {
  std::string weights = {};  // file of torchvision (.pth)
  std::string output = {};   // checkpoint to write
  // Source of the class names: an annotations file or "coco"; empty: COCO's, for 91 rows or a bare
  // backbone. A classifier's rows are named in order, as read_class_names (categories.h) says.
  std::string categories = {};
  // Number added to the variance in batch norm; unset: 0 for torchvision's published v1 weights (91
  // rows), 1e-3 for a MobileNetV3, else 1e-5.
  std::optional<double> norm_eps = {};
  // The task, and other settings that the weights do not show; stored in the checkpoint.
  ModelConfig config = {};
  bool overwrite = false;  // replace an output that was made differently
};

// Reads, recognises, selects the class rows, checks that every tensor has its place, writes the
// checkpoint. Returns the text to print: one line when the output already exists, from the same
// inputs. Throws kNoInput (a file is missing), kData (not a file that can be imported), kConfig
// (classes and categories differ; the output exists and was made differently), kCannotCreate, kIo.
std::string import_weights(const ImportOptions& options);

}  // namespace retina
