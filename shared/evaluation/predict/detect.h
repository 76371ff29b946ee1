// Detection over the images of a set or an image folder: images -> batches -> network or converted
// model -> COCO results in pixels of the original images; those of tiles are merged into those of
// whole images. Batches are formed over all images before ranks share them, so that the results do
// not depend on the number of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "shared/coco/categories.h"
#include "shared/coco/results.h"
#include "shared/comm/communicator.h"
#include "shared/data/sample_source.h"
#include "shared/evaluation/predict/ranks.h"
#include "shared/evaluation/predict/tile_merge.h"
#include "shared/model/postprocess.h"
#include "shared/model/precision.h"

namespace retina {

class ConvertedModel;  // shared/evaluation/predict/converted_model.h
class RetinaNet;       // shared/model/retinanet.h

struct DetectOptions {
  PostprocessOptions postprocess = {};     // ignored by a converted model, which has its own
  TileMerge tile_merge = {};               // for an image's tiles, if the samples are tiles
  int images_per_batch = 0;                // at most; 0: 1 on a CPU, 8 on a GPU
  int decode_threads = 2;                  // per rank, at the start
  int most_decode_threads = 0;             // if it is more: added while the network waits
  int prefetch_batches = 4;                // decoded and waiting, per rank: bounds the memory
  std::int64_t max_images = 0;             // only the first N by id; 0: all
  Precision precision = Precision::kFp32;  // convolutions'; a converted model has fp32 only
  // Called on the calling thread after each batch with this rank's images: done, to do.
  std::function<void(std::int64_t done, std::int64_t total)> on_progress = {};
  // Called on the calling thread for each image of this rank that the source skips; it gets no
  // detections.
  std::function<void(std::size_t place, const FileProblem& problem)> on_skipped = {};
  // Called with the head outputs of a detector, or a classifier, for each batch, f32, before they
  // become a result; not for a converted model.
  std::function<void(const Batch& batch, const HeadOutputs& heads)> on_heads = {};
  std::function<void(const Batch& batch, const at::Tensor& logits)> on_logits = {};
  // Asked before each batch: true skips the rest of this rank's share; only callers of the _share
  // functions can tell such a share from a whole one.
  std::function<bool()> should_stop = {};
};

// The images, the data's classes, and the ranks that share the work.
struct PredictionInput {
  const SampleSource& samples;   // made with the network's ModelConfig::normalisation()
  const Categories& categories;  // in label order: detections get their ids
  Communicator& ranks;
};

// Runs `model` over every image exactly once, each rank a share; collective. Rank 0 gets all
// detections, in ascending image id order and best first, the others none. The model runs without
// gradients on the device of its parameters, in evaluation mode; its mode is restored. Each image
// is padded to its own multiple of 32: larger neighbours would move its anchors. Throws what the
// source throws (kData if a record is damaged).
std::vector<Detection> detect(RetinaNet& model, const PredictionInput& input,
                              const DetectOptions& options);
// Does the same with a converted model, where images of equal size may share a batch. Throws
// kConfig for a classifier, kData if the model's answer does not have the form that onnx_file.h
// describes.
std::vector<Detection> detect(ConvertedModel& model, const PredictionInput& input,
                              const DetectOptions& options);

// Runs the first half: this rank's detections on its share, in the order of its batches; not
// collective.
std::vector<Detection> detect_share(RetinaNet& model, const PredictionInput& input,
                                    const DetectOptions& options);
// Runs the second half: gathers all ranks' detections on rank 0, by image, tiles' merged; the
// others get none. Collective.
std::vector<Detection> gather_detections(const std::vector<Detection>& share,
                                         const PredictionInput& input,
                                         const DetectOptions& options);

}  // namespace retina
