// Recognises the network of a foreign state dict by the names and shapes of its tensors.
#pragma once

#include <string>
#include <vector>

#include "convert/import/pth_file.h"
#include "shared/anchor/anchor.h"

namespace retina {

struct Architecture {
  // True for an image classifier or a bare backbone: pyramid and heads are missing.
  bool backbone_only = false;
  std::string backbone{};   // one of backbone_names (network_shape.h)
  bool group_norm = false;  // torchvision's v2 heads
  bool p6_from_c5 = false;  // also of torchvision's v2
  int anchors_per_location = kAnchorsPerCell;
  int fpn_channels = 256;       // width of the pyramid and the heads
  int head_convs = 4;           // convolutions of a head before its output
  bool batch_norm = false;      // trained with batch norm: the counters are there
  std::int64_t class_rows = 0;  // classes scored by the last layer; 0 for a backbone
};

// Renames `tensors` to torchvision 0.26's names of a RetinaNet (backbone.body.*, ...), as
// torchvision does for its own older files: prefixes of wrappers ("module.") are stripped, head and
// pyramid names from before version 0.13 become new, a classifier's backbone goes to
// backbone.body.* and its last layers are dropped. Throws Error{kData} beginning with `subject` for
// anything but a RetinaNet of torchvision or a backbone, naming what gave it away.
Architecture recognise(std::vector<ForeignTensor>& tensors, const std::string& subject);

// Does the same for a backbone with its last layers, under torchvision's names of a classifier (for
// a ResNet conv1.*, ..., fc.*). Throws for anything else, including a RetinaNet and a bare
// backbone.
Architecture recognise_classifier(std::vector<ForeignTensor>& tensors, const std::string& subject);

}  // namespace retina
