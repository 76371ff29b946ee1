// Options of retina-convert.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shared/model/config.h"
#include "shared/model/device_choice.h"
#include "shared/onnx/inference_header.h"

namespace retina {

class Cli;

struct ImportOptions;

struct ConvertOptions : PostprocessChoice {
  // One of these two is read.
  std::string checkpoint{};  // ours, or a run's folder: its best; becomes an inference model
  std::string weights{};     // torchvision's (.pth): become a checkpoint
  std::string output{};      // the inference model or the checkpoint, written
  WeightType onnx_weights = WeightType::kF32;
  std::string onnx_static{};  // HxW of all images; empty: any
  bool no_postprocess = false;
  // Also written: the model as a folder for model servers (repository.h); empty: none.
  std::string repository{};
  std::string service_name{};  // the model's name in it; empty: the task's (service_name_of)
  // Settings of the import (import/import.h). Unset sizes and sides: torchvision's for the task.
  std::optional<Task> import_task{};  // unset: detection
  std::string categories{};
  std::optional<double> norm_eps{};
  std::optional<std::vector<double>> anchor_sizes{};
  std::optional<int> min_side_px{}, max_side_px{};
  // Images that the written model is compared on; more find rarer differences, slower.
  int verification_image_count = 4;
  // Shards to take the verification's images from; empty: generated images.
  std::string verification_data{};
  // Images of verification_data that tell the ranges for int8, and on which its accuracy is
  // measured.
  int calibration_image_count = 100;
  // Device of the verification: auto, cpu or cuda. The model itself is bound to none.
  DeviceChoice device = DeviceChoice::kCpu;
  // Replace an output that was made differently, or is something else.
  bool overwrite = false;

  // Throws Error{kUsage} naming the option.
  void validate(const Cli& given) const;
  // Throws Error{kConfig} naming an option that was given and has no meaning for a checkpoint of
  // this task: only the checkpoint tells which that is.
  void check_task(Task task) const;

  // Returns the form that the inference model is to have.
  OnnxForm onnx_form() const;
  // Returns the model's name in a repository: service_name, or the task's when that is empty.
  std::string service_name_of(Task task) const;
  // Returns what the weights of an import do not show: task, input sides, anchor sizes.
  ModelConfig import_config() const;
  ImportOptions import_options() const;
};

// Adds every option to the command line; `options` is filled when it is parsed.
void declare_options(Cli& cli, ConvertOptions& options);

}  // namespace retina
