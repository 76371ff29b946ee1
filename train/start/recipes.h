// Recipes: the settings behind published numbers, under one name. A recipe sets the options that
// the command line and --config leave unset.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shared/base/task.h"
#include "shared/cli/cli.h"

namespace retina {

struct TrainOptions;

// Value of --recipe by default: one of ours may be chosen, and other unset options follow from the
// data.
inline constexpr const char* kAutoRecipe = "auto";
inline constexpr const char* kNoRecipe = "none";  // the options' own defaults
inline constexpr const char* kAutoSize = "auto";  // chosen where the network is open
inline constexpr const char* kNoSize = "none";
inline constexpr const char* kSmallRecipe = "small";
inline constexpr const char* kFinetuneRecipe = "finetune";

// Properties of a recipe besides its option values. The defaults are torchvision's, and those of
// "none".
struct RecipeFacts {
  Task task = Task::kDetection;
  int reference_images_per_step = 16;  // global batch of its learning rate
  int epochs = 26;
  // True for ours and "auto": length and schedule follow from the data. The run has at least
  // `epochs` epochs and `least_steps` steps.
  bool fits_data = false;
  std::int64_t least_steps = 0;
  int warmup_epochs = 0;     // length of --warmup-steps auto; 0: a share of the run
  std::string weights = {};  // pretrained weights for --init; empty: none
};
// torchvision-v1    references/detection of torchvision for retinanet_resnet50_fpn (36.4 mAP)
// torchvision-v2    ... for retinanet_resnet50_fpn_v2 (41.5 mAP)
// imagenet-resnet50 references/classification of torchvision for resnet50 (76.1 % top-1)
// cifar10-keras     Keras' examples/cifar10_cnn.py, as Azure Batch AI's tutorial trains it
// mlperf            MLPerf Training's reference of its benchmark "retinanet"
// keras-retinanet   the defaults of keras-retinanet's train.py and of its Azure tutorials
// atss              adaptive training sample selection (Zhang et al. 2020), 12 epochs
// gfl               ... with the quality focal loss (Li et al. 2020)
//
// Ours, for a detector when no recipe is named (run_defaults.h):
// small             from scratch on few images
// finetune          from the weights of a detector
struct Recipe {
  std::string name;
  RecipeFacts facts;
  std::function<void(TrainOptions&, const Setter&)> apply;
};
const std::vector<Recipe>& recipes();
const Recipe* find_recipe(const std::string& name);  // null if unknown
// Returns a recipe's facts; the defaults for a name that is not a recipe's, but for "auto" its own.
RecipeFacts facts_of_recipe(const std::string& name);

// Returns the values of --recipe, which set `options`.
Cli::Presets recipe_presets(TrainOptions& options);

// Returns the values of --size: a detector's backbone, width and image size under one name, from
// edge devices to the most accurate. "medium" has those of published detectors and of the options'
// defaults. Details: train/README.md.
Cli::Presets size_presets(TrainOptions& options);

// Returns one field of all recipes for help texts: "26, atss 12, ...".
std::string fact_of_each_recipe(int RecipeFacts::*fact);

}  // namespace retina
