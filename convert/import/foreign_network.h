// Turns a file's tensors into a network of ours, with one function for each task; import.h does
// what both share.
#pragma once

#include <string>
#include <vector>

#include "convert/import/import.h"
#include "convert/import/pth_file.h"
#include "shared/coco/categories.h"
#include "shared/ops/named_tensor.h"

namespace retina {

// The parts of a checkpoint that come from a foreign file.
struct ForeignNetwork {
  ModelConfig config{};
  NamedTensors model{};
  Categories categories{};
  bool backbone_only = false;  // pyramid and heads are placeholders
  std::string summary{};       // description of the network
};

// Recognises a RetinaNet, or a classifier whose backbone it takes. Throws as import_weights.
ForeignNetwork detector_of(std::vector<ForeignTensor> tensors, const ImportOptions& options);
// Recognises a backbone with its last layers, all rows of which it takes. Throws as import_weights.
ForeignNetwork classifier_of(std::vector<ForeignTensor> tensors, const ImportOptions& options);

// Throws Error{kData} naming the first tensor with a value that is NaN or infinite, or not within
// f32's range, the first variance below 0, or the first weights that are integers.
void check_finite(const NamedTensors& state, const std::string& subject);

}  // namespace retina
