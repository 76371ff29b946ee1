#include "shared/evaluation/detect.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>

#include <utility>

#include "shared/base/error.h"
#include "shared/data/evaluation_plan.h"
#include "shared/data/loader.h"
#include "shared/evaluation/visits.h"
#include "shared/image/resize.h"
#include "shared/model/autocast.h"
#include "shared/model/retinanet.h"
#include "shared/watch/activity.h"

namespace retina {

namespace {

// This rank's batches. Formed over all visited images first: what shares a batch must not depend on
// the number of ranks.
std::vector<BatchRequest> plan_share(const PictureSource& pictures, const ModelConfig& config,
                                     const Communicator& ranks, const DetectOptions& options) {
  const std::vector<std::size_t> places = visited_places(pictures.index(), options);
  std::vector<IndexEntry> visited;
  for (const std::size_t place : places) visited.push_back(pictures.index()[place]);
  std::vector<BatchRequest> plan =
      plan_evaluation(visited, {.min_side_px = config.min_side_px,
                                .max_side_px = config.max_side_px,
                                .images_per_batch = options.images_per_batch});
  for (BatchRequest& request : plan) {
    for (Slot& slot : request.slots) slot.record = places[slot.record];
  }
  return share_of_rank(plan, ranks);
}

// Boxes go back to the original image per axis in f32, as torchvision's transform.postprocess.
void append_image(const Sample& sample, const ImageDetections& found, const Categories& categories,
                  std::vector<Detection>& detections) {
  const at::Tensor boxes = found.boxes.cpu().contiguous(), scores = found.scores.cpu().contiguous(),
                   labels = found.labels.cpu().contiguous();
  const float* box = boxes.const_data_ptr<float>();
  const float* score = scores.const_data_ptr<float>();
  const std::int64_t* label = labels.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < scores.size(0); ++i, box += 4) {
    const auto corners = resize_box(
        {box[0], box[1], box[2], box[3]}, {.width = sample.width_px, .height = sample.height_px},
        {.width = sample.original_width_px, .height = sample.original_height_px});
    const auto category = static_cast<std::size_t>(label[i]);
    detections.push_back(
        coco_detection(sample.image_id, categories[category].id, corners, score[i]));
  }
}

}  // namespace

void tell_progress(Communicator& ranks) {
  if (Activity* const activity = ranks.activity()) activity->enter(Phase::kValidate);
}

std::vector<Detection> detect_share(RetinaNet& model, const PictureSource& pictures,
                                    Communicator& ranks, const DetectOptions& options) {
  const PhaseScope phase(ranks.activity(), Phase::kValidate);
  const auto class_count = static_cast<int>(pictures.categories().size());
  RETINA_CHECK(model.config().class_count == class_count, "model of ", model.config().class_count,
               " classes, data of ", class_count);
  const EvaluationMode evaluation_mode(model);
  const at::NoGradGuard no_gradients;
  const std::vector<BatchRequest> plan = plan_share(pictures, model.config(), ranks, options);
  std::int64_t total = 0, done = 0;
  for (const BatchRequest& request : plan) total += static_cast<std::int64_t>(request.slots.size());
  const PictureSamples source(pictures, model.config().normalisation());
  const at::Device device = model.device();
  BatchLoader loader(source, loader_options(options, device), one_after_another(plan));
  const at::ScalarType type = model.scalar_type();
  std::vector<Detection> detections;
  while (!(options.should_stop && options.should_stop())) {
    const auto batch = loader.next();
    if (!batch) break;
    const auto image_count = static_cast<std::int64_t>(batch->samples.size());
    const PixelSize padded{.height = batch->padded_height_px, .width = batch->padded_width_px};
    const at::Tensor images =
        at::from_blob(
            batch->images.get(), {image_count, 3, padded.height, padded.width},
            [memory = batch->images](void*) {}, at::TensorOptions().dtype(at::kFloat))
            .to(device, type);  // [N, 3, H, W]
    std::vector<PixelSize> sizes;
    for (const Sample& sample : batch->samples) {
      sizes.push_back({.height = sample.height_px, .width = sample.width_px});
    }
    HeadOutputs outputs;
    {
      const AutocastScope autocast(options.precision, device.type());
      outputs = model.forward(images);
    }
    for (at::Tensor& level : outputs.logits) level = level.to(type);  // [N, a, K]
    for (at::Tensor& level : outputs.deltas) level = level.to(type);  // [N, a, 4]
    const std::vector<ImageDetections> found =
        postprocess(outputs, model.config(), padded, sizes, options.postprocess);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const Sample& sample = batch->samples[i];
      if (!sample.problem) {
        append_image(sample, found[i], pictures.categories(), detections);
      } else if (options.on_left_out) {
        options.on_left_out(sample.slot.record, *sample.problem);
      }
    }
    tell_progress(ranks);
    done += image_count;
    if (options.on_progress) options.on_progress(done, total);
  }
  return detections;
}

std::vector<Detection> detect(RetinaNet& model, const PictureSource& pictures, Communicator& ranks,
                              const DetectOptions& options) {
  return gather_detections(ranks, detect_share(model, pictures, ranks, options));
}

}  // namespace retina
