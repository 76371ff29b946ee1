#include "shared/evaluation/predict/detect.h"

#include <ATen/TensorOperators.h>

#include <algorithm>

#include "shared/base/error.h"
#include "shared/comm/activity.h"
#include "shared/evaluation/predict/batches.h"
#include "shared/evaluation/predict/converted_model.h"
#include "shared/image/resize.h"
#include "shared/model/autocast.h"
#include "shared/model/retinanet.h"

namespace retina {

namespace {

// Appends the detections of one image. Boxes go back to the original image per axis in f32, as
// torchvision's transform.postprocess, and from corners to xywh as its reference evaluation does;
// those of a tile to its place.
void append_image(const Sample& sample, const ImageDetections& found, const Categories& categories,
                  std::vector<Detection>& detections) {
  const at::Tensor boxes = found.boxes.cpu().contiguous(), scores = found.scores.cpu().contiguous(),
                   labels = found.labels.cpu().contiguous();
  const float* box = boxes.const_data_ptr<float>();
  const float* score = scores.const_data_ptr<float>();
  const std::int64_t* label = labels.const_data_ptr<std::int64_t>();
  const TileRect shown = sample.tile.value_or(
      TileRect{.width = sample.original_width_px, .height = sample.original_height_px});
  for (std::int64_t i = 0; i < scores.size(0); ++i, box += 4) {
    const auto [left, top, right, bottom] = resize_box(
        {box[0], box[1], box[2], box[3]}, {.width = sample.width_px, .height = sample.height_px},
        {.width = shown.width, .height = shown.height});
    const float width = right - left, height = bottom - top;
    // Boxes that were clipped away, at the padding of a long image, stay as in torchvision, but not
    // among tiles.
    if (sample.tile && (width <= 0 || height <= 0)) continue;
    detections.push_back({.image_id = sample.image_id,
                          .category_id = categories[static_cast<std::size_t>(label[i])].id,
                          .bbox = {shown.x + static_cast<double>(left),
                                   shown.y + static_cast<double>(top), width, height},
                          .score = score[i]});
  }
}

void append_batch(const Batch& batch, const std::vector<ImageDetections>& found,
                  const Categories& categories, std::vector<Detection>& detections) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Sample& sample = batch.samples[i];
    if (!sample.problem) append_image(sample, found[i], categories, detections);
  }
}

// Returns the network's detections on each image, in pixels of the resized one.
std::vector<ImageDetections> found_by(const RetinaNet& network, const Batch& batch,
                                      const at::Tensor& images, const DetectOptions& options) {
  const PixelSize padded{.height = batch.padded.height, .width = batch.padded.width};
  std::vector<PixelSize> sizes;
  for (const Sample& sample : batch.samples) {
    sizes.push_back({.height = sample.height_px, .width = sample.width_px});
  }
  HeadOutputs outputs;
  {
    const AutocastScope autocast(options.precision, network.device().type());
    outputs = network.forward(images);
  }
  for (at::Tensor& level : outputs.logits) level = level.to(at::kFloat);  // [N, a, K]
  for (at::Tensor& level : outputs.deltas) level = level.to(at::kFloat);  // [N, a, 4]
  if (options.on_heads) options.on_heads(batch, outputs);
  return postprocess(outputs, network.config(), padded, sizes, options.postprocess);
}

// Returns the converted model's detections on each image, in the image's own pixels. Shapes, types
// and labels are checked here: from here on they are as onnx_file.h promises.
std::vector<ImageDetections> found_by(ConvertedModel& model, const at::Tensor& images,
                                      std::int64_t class_count) {
  const auto fail = [&](const std::string& problem) { refuse_answer(model.path(), problem); };
  const std::vector<at::Tensor> parts = model.detections(images);
  const at::Tensor boxes = parts[0].to(at::kFloat).contiguous(),  // [N, D, 4]
      scores = parts[1].to(at::kFloat).contiguous(),              // [N, D]
      labels = parts[2].to(at::kLong).contiguous(),               // [N, D]
      counts = parts[3].to(at::kLong).contiguous();               // [N]
  const std::int64_t image_count = images.size(0);
  if (scores.dim() != 2 || scores.size(0) != image_count) fail("has scores of a wrong shape");
  const std::int64_t limit = scores.size(1);
  if (boxes.sizes() != at::IntArrayRef({image_count, limit, 4}) ||
      labels.sizes() != scores.sizes() || counts.sizes() != at::IntArrayRef({image_count}) ||
      (counts > limit).any().item<bool>()) {
    fail("has boxes, labels or counts of a wrong shape");
  }
  std::vector<ImageDetections> found;
  for (std::int64_t n = 0; n < image_count; ++n) {
    const auto count = std::max<std::int64_t>(0, counts[n].item<std::int64_t>());
    const auto of_image = [&](const at::Tensor& all) { return all[n].narrow(0, 0, count); };
    found.push_back({of_image(boxes), of_image(scores), of_image(labels)});
    const std::int64_t* const label = found.back().labels.const_data_ptr<std::int64_t>();
    for (std::int64_t d = 0; d < count; ++d) {
      if (label[d] >= 0 && label[d] < class_count) continue;
      fail(cat("has a label out of range (got ", label[d], ", want 0..", class_count - 1, ")"));
    }
  }
  return found;
}

}  // namespace

void report_progress(Communicator& ranks) {
  if (Activity* const activity = ranks.activity()) activity->enter(Phase::kValidate);
}

std::vector<Detection> detect_share(RetinaNet& model, const PredictionInput& input,
                                    const DetectOptions& options) {
  std::vector<Detection> detections;
  for_each_batch(model, input, options, [&](const Batch& batch, const at::Tensor& images) {
    append_batch(batch, found_by(model, batch, images, options), input.categories, detections);
  });
  return detections;
}

std::vector<Detection> gather_detections(const std::vector<Detection>& share,
                                         const PredictionInput& input,
                                         const DetectOptions& options) {
  std::vector<Detection> all = gather_by_image(input.ranks, share);
  return is_tiled(input.samples.index()) ? merge_tiles_by_image(all, options.tile_merge) : all;
}

std::vector<Detection> detect(RetinaNet& model, const PredictionInput& input,
                              const DetectOptions& options) {
  return gather_detections(detect_share(model, input, options), input, options);
}

std::vector<Detection> detect(ConvertedModel& model, const PredictionInput& input,
                              const DetectOptions& options) {
  model.check_task(Task::kDetection);
  model.check_postprocess();
  const auto class_count = static_cast<std::int64_t>(input.categories.size());
  std::vector<Detection> detections;
  for_each_batch(model, input, options, [&](const Batch& batch, const at::Tensor& images) {
    append_batch(batch, found_by(model, images, class_count), input.categories, detections);
  });
  return gather_detections(detections, input, options);
}

}  // namespace retina
