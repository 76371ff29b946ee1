// What retina-convert is asked to do.
#pragma once

#include <optional>
#include <string>

#include "shared/model/config.h"
#include "shared/model/device_choice.h"
#include "shared/model/postprocess_options.h"

namespace retina {

class Cli;

inline constexpr const char* kDefaultServiceName = "coco_retinanet";

struct ImportOptions;

struct ConvertOptions {
  // One of these two is read.
  std::string checkpoint{};  // ours, or a run's folder: its best; becomes an inference model
  std::string weights{};     // torchvision's (.pth): become a checkpoint
  std::string output{};      // the inference model or the checkpoint, written
  // Also written: the model as a folder for model servers (repository.h); empty: none.
  std::string repository{};
  std::string service_name = kDefaultServiceName;  // of the model in it
  // Of the import, see import/import.h.
  std::string categories{};
  std::optional<double> norm_eps{};
  ModelConfig import_config{};
  // Built into the model as defaults; its attributes of the same names can be changed later.
  PostprocessOptions postprocess{};
  // Images that the written model is compared on; more find rarer differences, slower.
  int proof_image_count = 4;
  // Shards to take the proof's images from; empty: generated images.
  std::string proof_data{};
  // Where the proof runs: auto, cpu or cuda. The model itself is bound to none.
  DeviceChoice device = DeviceChoice::kCpu;
  // Replace an output that was made differently, or is something else.
  bool overwrite = false;

  // Throws Error{kUsage} naming the option.
  void validate() const;

  ImportOptions import_options() const;
};

// Adds every option to the command line; `options` is filled when it is parsed.
void declare_options(Cli& cli, ConvertOptions& options);

}  // namespace retina
