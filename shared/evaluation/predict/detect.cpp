#include "shared/evaluation/predict/detect.h"

#include "shared/comm/activity.h"
#include "shared/evaluation/predict/network_run.h"
#include "shared/evaluation/predict/visits.h"
#include "shared/image/resize.h"
#include "shared/model/autocast.h"
#include "shared/model/retinanet.h"

namespace retina {

namespace {

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

std::vector<Detection> detect_share(RetinaNet& model, const ImageSource& source,
                                    Communicator& ranks, const DetectOptions& options) {
  std::vector<Detection> detections;
  run_network(model, source, ranks, options, [&](const Batch& batch, const at::Tensor& images) {
    const PixelSize padded{.height = batch.padded_height_px, .width = batch.padded_width_px};
    std::vector<PixelSize> sizes;
    for (const Sample& sample : batch.samples) {
      sizes.push_back({.height = sample.height_px, .width = sample.width_px});
    }
    HeadOutputs outputs;
    {
      const AutocastScope autocast(options.precision, model.device().type());
      outputs = model.forward(images);
    }
    const at::ScalarType type = model.scalar_type();
    for (at::Tensor& level : outputs.logits) level = level.to(type);  // [N, a, K]
    for (at::Tensor& level : outputs.deltas) level = level.to(type);  // [N, a, 4]
    const std::vector<ImageDetections> found =
        postprocess(outputs, model.config(), padded, sizes, options.postprocess);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const Sample& sample = batch.samples[i];
      if (!sample.problem) append_image(sample, found[i], source.categories(), detections);
    }
  });
  return detections;
}

std::vector<Detection> detect(RetinaNet& model, const ImageSource& source, Communicator& ranks,
                              const DetectOptions& options) {
  return gather_detections(ranks, detect_share(model, source, ranks, options));
}

}  // namespace retina
