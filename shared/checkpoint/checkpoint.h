// Checkpoints: named tensors and their metadata in one file that Python's
// `torch.load(path, weights_only=True)` opens as a dict. Written by retina-train, read by
// retina-train, retina-eval and retina-convert. Knows no model. The bytes: FORMAT.md beside this.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/coco/categories.h"
#include "shared/ops/named_tensor.h"

namespace retina {

// A checkpoint without its tensors.
struct CheckpointHeader {
  std::string trainer_json = "{}";  // one JSON object: step, epoch, samples seen, schedule
  std::string config_json = "{}";   // one JSON object: {"model": ..., "train": ...}
  Categories categories{};          // by dense label
};

struct Checkpoint {
  NamedTensors model{};      // torchvision's parameter names and layouts, in order
  NamedTensors optimizer{};  // state by parameter: "exp_avg.backbone.body.conv1.weight"
  std::string trainer_json = "{}";
  std::string config_json = "{}";
  Categories categories{};
};

// Writes `path` atomically: temporary file, fsync, re-read and verified, rename. Strides of dense
// tensors survive (channels_last), others are made contiguous; tensors that share storage are
// written separately; device tensors are copied to the host. The same content gives the same bytes.
// Safe on a background thread while no thread changes the tensors. Returns the file's hash (its
// seal). Throws kCannotCreate (not writable), kIo (disk full, mount gone); names must be unique and
// the two texts JSON objects (kInternal).
std::uint64_t save_checkpoint(const std::string& path, const Checkpoint& checkpoint);

enum class CheckpointPart { kAll, kModel };

// Returns the checkpoint, whose every byte is verified first, so damage never reaches a tensor.
// Tensors are on the CPU and own their memory; kModel leaves out the optimizer's, most of the file.
// Throws kNoInput (missing), kData (damaged, cut short, not one of our files, written by a newer
// version), kIo.
Checkpoint load_checkpoint(const std::string& path, CheckpointPart part = CheckpointPart::kAll);

// Throws kConfig if the checkpoint is the import of an image classifier: its pyramid and heads are
// placeholders, to start a training from (retina-train --init). Errors name `path`.
void check_has_heads(const Checkpoint& checkpoint, const std::string& path);

// Returns the header after the same checks, without building tensors: for choosing the newest good
// checkpoint. Throws as load_checkpoint().
CheckpointHeader read_checkpoint_header(const std::string& path);

}  // namespace retina
