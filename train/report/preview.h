// `retina-train --preview N`: a page with the first samples of a run as the model will see them,
// augmented and resized. No LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/anchor/anchor.h"
#include "shared/cli/cli.h"
#include "shared/image/resize.h"
#include "train/plan/training_plan.h"

namespace retina {

inline constexpr const char* kPreviewFile = "preview.html";  // in the RUN folder
inline constexpr const char* kPreviewTitle = "<title>retina-train: preview of ";

struct PreviewInput {
  const TrainingSet& train;
  std::vector<std::string> folders = {};  // names of the training sets, as the user gave them
  std::int64_t image_count = 0;           // samples to show; fewer when the run has no more
  std::int64_t total_steps = 0;
  TrainingPlan plan;
  std::string augment = {};          // name of the set of random changes
  Normalisation normalisation = {};  // normalisation of the samples
  AnchorRule anchors = {};
  std::optional<double> foreground_iou = 0.5;     // unset: anchors are not chosen by a fixed IoU
  int threads = 2;                                // threads for decoding
  std::vector<EffectiveOption> all_options = {};  // shown at the end
};

// Returns the page: samples in the order of the plan, boxes green; with `foreground_iou`, red where
// no anchor, wherever it is centred, reaches it with a box of that size (AnchorCoverage).
std::string render_preview(const PreviewInput& input);

// The pixels of a sample, as planes in its batch. image_from() turns them back into an image:
// values times std plus mean, clipped.
struct SamplePlanes {
  const float* values = nullptr;  // red
  std::int64_t row_stride = 0, plane_stride = 0;
  ImageSize size{};  // without padding
};
Image image_from(const SamplePlanes& planes, const Normalisation& normalisation);

}  // namespace retina
