// A model file, checkpoint or converted model, of either task, ready to run.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "evaluate/evaluation_folder.h"
#include "evaluate/options.h"
#include "shared/base/task.h"
#include "shared/coco/categories.h"
#include "shared/coco/results.h"
#include "shared/data/tiled_source.h"
#include "shared/evaluation/predict/converted_model.h"
#include "shared/evaluation/predict/detect.h"
#include "shared/evaluation/score/class_outcome.h"
#include "shared/image/frame.h"
#include "shared/model/classifier.h"
#include "shared/model/retinanet.h"
#include "shared/shard/image_index.h"

namespace retina {

// The scale at which a model was trained.
struct ModelScale {
  FrameRule frame = {};
  int tile_px = 0;  // side of the tiles that it was trained on; 0: whole images, or not known
};

class LoadedModel {
 public:
  // Opens a checkpoint or a converted model, told apart by their content. Throws kNoInput, kIo,
  // kData (damaged, neither kind), kConfig (a precision that the model does not have).
  LoadedModel(const EvalOptions& options, const c10::Device& device);

  // Returns "checkpoint" or "converted model".
  std::string kind() const;
  Task task() const;
  const Categories& categories() const { return about_.categories; }
  // Returns the normalisation of the samples that it takes.
  Normalisation normalisation() const;
  // Returns the scale at which a detector sees images.
  const ModelScale& scale() const { return about_.scale; }
  // Returns a warning that its thresholds lower AP, or "".
  std::string capped_ap() const;
  // Detects on all samples; see shared/evaluation/predict/detect.h. Throws kData, too, for a box or
  // a score that is not finite. Collective.
  std::vector<Detection> detect_all(const PredictionInput& input, const DetectOptions& options);
  // Does the same with a classifier; see shared/evaluation/predict/classify.h.
  std::vector<ClassOutcome> classify_all(const ShardSet& shards, Communicator& ranks,
                                         const DetectOptions& options);

  using Model = std::variant<RetinaNet, std::unique_ptr<Classifier>, ConvertedModel>;
  // The facts in the file beside the network.
  struct About {
    Categories categories{};
    ModelScale scale{};
    PostprocessOptions limits{};  // effective ones: the command line's, else the model's own
  };

 private:
  std::string path_;
  About about_;
  Model model_;
};

// Returns the command line's settings for detecting on `device`.
DetectOptions detect_options(const EvalOptions& options, const c10::Device& device,
                             const Communicator& ranks);

// Returns a progress line over rank 0's images or tiles, for DetectOptions::on_progress; nothing on
// other ranks.
std::function<void(std::int64_t, std::int64_t)> progress_line(const Communicator& ranks,
                                                              const char* doing,
                                                              const char* unit = "images");

// Returns the sources' tiles as the command line asks for them; null without --tile.
std::unique_ptr<TiledSource> tiled(const RowSource& images, const EvalOptions& options);

// Returns the inputs and settings that decide the detections. Inputs count by content, so that
// moved files are the same evaluation: `input_hash` is that of the images, which `input_key` names
// ("data" or "images").
EvalIdentity detection_identity(const EvalOptions& options, const char* input_key,
                                const std::string& input_hash);

// Throws Error{kConfig} naming the first class that differs, unless both have the same ones in the
// same order.
void check_same_classes(const Categories& model, const Categories& data,
                        const std::string& subject);

// Returns a warning, or "". `images` are whole ones, detected on `tiles` (sides, px; none: whole).
// It warns of whole images that the model scales down by more than 3 (the image of median longer
// side), and of tiles that are all more than 1.5 times as large or small as those of the training.
std::string scale_warning(const ModelScale& model, const ImageIndex& images,
                          const std::vector<std::int64_t>& tiles);

}  // namespace retina
