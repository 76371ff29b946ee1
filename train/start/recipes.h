// Recipes: the settings behind published numbers, under one name. A recipe holds for every option
// that the command line and --config leave unset.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shared/base/task.h"
#include "shared/cli/cli.h"

namespace retina {

struct TrainOptions;

// No recipe is named: one of ours is chosen, or what is left unset follows from the data alone.
inline constexpr const char* kAutoRecipe = "auto";
inline constexpr const char* kNoRecipe = "none";  // everything is as the options' defaults have it
inline constexpr const char* kSmallRecipe = "small";
inline constexpr const char* kFinetuneRecipe = "finetune";
inline constexpr const char* kMlperfRecipe = "mlperf";

// What a recipe says beyond its options. "none" has torchvision's.
struct RecipeFacts {
  Task task = Task::kDetection;
  int reference_images_per_step = 16;  // its learning rate is for this global batch
  int epochs = 26;
  // Ours, and "auto": length and schedule fit the data. `epochs` or more, to make this many steps.
  bool fits_data = false;
  std::int64_t least_steps = 0;
  int warmup_epochs = 0;      // what --warmup-steps auto means; 0: a share of the run
  std::string backbone = {};  // name of the weights that it begins with; empty: from scratch
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
// Ours, for a detector where nobody names a recipe (run_defaults.h):
// small             from scratch on few images
// finetune          from the weights of a detector
struct Recipe {
  std::string name;
  RecipeFacts facts;
  std::function<void(TrainOptions&, const Setter&)> apply;
};
const std::vector<Recipe>& recipes();
const Recipe* find_recipe(const std::string& name);  // null: none of that name
RecipeFacts facts_of_recipe(const std::string& name);

// The values of --recipe.
Cli::Presets recipe_presets(TrainOptions& options);

// The values of --size: a detector's backbone, width and image size under one name, from edge
// devices to what takes longest and finds most. medium is the published detectors', and the
// options' defaults. What each has and costs: train/README.md.
Cli::Presets size_presets(TrainOptions& options);

// Returns a fact for help texts: "26, atss 12, ...".
std::string fact_of_each_recipe(int RecipeFacts::*fact);

}  // namespace retina
