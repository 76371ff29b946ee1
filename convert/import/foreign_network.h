// Recognises the network of a file's tensors and turns them into one of ours, with one function for
// each task; import.h does what both share.
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

// The network of a foreign state dict, as the names and shapes of its tensors show it.
struct ForeignArchitecture {
  ModelConfig config{};         // but for class_count and norm_eps
  bool backbone_only = false;   // an image classifier or a bare backbone: no pyramid, no heads
  std::int64_t class_rows = 0;  // classes scored by the last layer; 0 for a backbone
};

// Renames `tensors` to torchvision 0.26's names of a RetinaNet (backbone.body.*, ...), as
// torchvision does for its own older files: prefixes of wrappers ("module.") are stripped, head and
// pyramid names from before version 0.13 become new, a classifier's backbone goes to
// backbone.body.* and its last layers are dropped. Throws Error{kData} for anything but a RetinaNet
// of torchvision or a backbone, naming what gave it away.
ForeignArchitecture recognise(std::vector<ForeignTensor>& tensors, const ImportOptions& options);
// Does the same for a backbone with its last layers, under torchvision's names of a classifier (for
// a ResNet conv1.*, ..., fc.*). Throws for anything else, including a RetinaNet and a bare
// backbone.
ForeignArchitecture recognise_classifier(std::vector<ForeignTensor>& tensors,
                                         const ImportOptions& options);

// Recognises a RetinaNet, or a classifier whose backbone it takes. Throws as import_weights.
ForeignNetwork detector_of(std::vector<ForeignTensor> tensors, const ImportOptions& options);
// Recognises a backbone with its last layers, all rows of which it takes. Throws as import_weights.
ForeignNetwork classifier_of(std::vector<ForeignTensor> tensors, const ImportOptions& options);

// Throws Error{kData} naming the first tensor with a value that is NaN or infinite, or not within
// f32's range, the first variance below 0, or the first weights that are integers.
void check_finite(const NamedTensors& state, const std::string& subject);

}  // namespace retina
