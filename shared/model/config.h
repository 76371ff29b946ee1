// The configuration of a network, stored in every checkpoint, so that evaluation and conversion
// need not ask for it again; and the rules for keeping a detector's boxes.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "shared/anchor/anchor.h"
#include "shared/base/choices.h"
#include "shared/base/task.h"
#include "shared/image/frame.h"

namespace retina {

class JsonView;        // shared/base/json.h
struct Normalisation;  // shared/image/resize.h

// Batch norm of the backbone: trained, or imported statistics and affine kept constant.
enum class Norm { kFrozen, kBatch };
// Norm of the head towers: GroupNorm of 32 groups (torchvision v2), or none (v1, the paper).
enum class HeadNorm { kGroup, kNone };

// Words for both on command lines and in checkpoints; part of the format, never rename.
inline const Choices<Norm> kNorms = {{"frozen", Norm::kFrozen}, {"batch", Norm::kBatch}};
inline const Choices<HeadNorm> kHeadNorms = {{"group", HeadNorm::kGroup},
                                             {"none", HeadNorm::kNone}};

// Sizes that images are resized to, px (ModelConfig explains each).
struct InputSides {
  int min_px = 800, max_px = 1333;
};
// Returns torchvision's sizes, of its RetinaNets and of its ResNets for ImageNet (the first weights
// of each); for cifar-cnn CIFAR-10's.
InputSides default_sides(Task task, const std::string& backbone);

struct ModelConfig {
  Task task = Task::kDetection;  // a RetinaNet, or a classifier (classifier.h)
  // One of backbone_names (network_shape.h): ResNets, ResNeXts, Wide ResNets, RegNetXs and
  // MobileNetV3-Large under torchvision's names; for a classifier also cifar-cnn.
  std::string backbone = "resnet50";
  // Number of classes, with dense labels 0 .. class_count - 1; no background class.
  int class_count = 0;
  Norm norm = Norm::kBatch;
  // Term added to the variance in batch norm; torchvision's published COCO v1 weights need 0.
  double norm_eps = 1e-5;
  // From here to the sizes: for a RetinaNet only.
  HeadNorm head_norm = HeadNorm::kGroup;
  // Source of P6: C5 (torchvision v2) or P5 (v1).
  bool p6_from_c5 = true;
  // Side of the square base anchor of P3..P7, px of the resized image.
  std::vector<double> anchor_sizes = {32, 64, 128, 256, 512};
  // Centre of an anchor within its cell, in strides: 0 (torchvision) or 0.5 (keras-retinanet).
  double anchor_offset = 0;
  // 9, or 1: the square of the size itself.
  int anchors_per_location = kAnchorsPerCell;
  // Channels of P3..P7 and of the heads, 64 to 256 in steps of 32 (GroupNorm's groups), and the 3x3
  // convolutions of a head before its output, 1 to 4. The defaults are the paper's (Lin et al.
  // 2017, figure 3); others make smaller detectors.
  int fpn_channels = 256;
  int head_convs = 4;
  // False: whole images are stretched to squares of min_side_px, and max_side_px is ignored (MLPerf
  // Training's RetinaNet).
  bool keep_ratio = true;
  // For a RetinaNet: images are resized so that the shorter side has min_side_px, unless the longer
  // would exceed max_side_px. For a classifier: a square of min_side_px (image/frame.h).
  int min_side_px = 800;
  int max_side_px = 1333;
  // Normalisation per RGB channel of an image in [0, 1]: (pixel - mean) / std. ImageNet's.
  std::array<double, 3> image_mean = {0.485, 0.456, 0.406};
  std::array<double, 3> image_std = {0.229, 0.224, 0.225};

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;

  // Throws Error{kUsage} naming the field, its value and the allowed ones.
  void validate() const;
  // Returns one JSON object with the field names above; those of a RetinaNet only if it is one,
  // `task` only if it is not, anchors_per_location, fpn_channels, head_convs and keep_ratio only if
  // they are not the defaults: a file of the paper's sizes is one that every version reads.
  std::string to_json() const;
  // Parses a configuration. Every field but task, anchor_offset, anchors_per_location,
  // fpn_channels, head_convs and keep_ratio must be there. Throws Error{kData} with the place for a
  // missing or impossible one.
  static ModelConfig from_json(const JsonView& json);

  // Returns the normalisation of pixels for training and evaluation.
  Normalisation normalisation() const;

  // Returns the rule that brings images to the network's size.
  FrameRule frame() const;

  AnchorRule anchors() const {
    return {.sizes = anchor_sizes, .per_cell = anchors_per_location, .offset = anchor_offset};
  }

  bool frozen_norm() const { return norm == Norm::kFrozen; }
};

// Parses the `config` of a checkpoint or inference model. `path` names the file. Throws
// Error{kData}.
ModelConfig model_config_of(const std::string& config_json, const std::string& path);

// Rules for keeping detections (postprocess.h).
struct PostprocessOptions {
  // Least score of a candidate, exclusive. Lower finds more, slower.
  double score_threshold = 0.05;
  // IoU with a better box of its class above which a box is dropped.
  double nms_threshold = 0.5;
  // Limit of the best candidates of each level before suppression.
  int candidates_per_level = 1000;
  // Limit of the best detections of each image.
  int max_detections = 300;

  // Throws Error{kUsage} naming the field.
  void validate() const;
};

// What a command line says of them; unset: as above, in a converted model its own.
struct PostprocessChoice {
  std::optional<double> score_threshold{}, nms_threshold{};
  std::optional<int> max_detections{};

  PostprocessOptions postprocess() const;
};

}  // namespace retina
