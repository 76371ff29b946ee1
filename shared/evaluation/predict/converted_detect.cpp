#include "shared/evaluation/predict/converted_detect.h"

#include <ATen/TensorOperators.h>

#include "shared/base/error.h"
#include "shared/data/image_source.h"
#include "shared/evaluation/predict/converted_run.h"
#include "shared/evaluation/predict/visits.h"

namespace retina {

namespace {

// The model's answer for a batch, checked: from here on shapes and types are as promised.
struct Answer {
  at::Tensor boxes, scores, labels, counts;  // [N, D, 4] f32, [N, D] f32, [N, D] i64, [N] i64
};

Answer checked_answer(const std::vector<at::Tensor>& parts, std::int64_t image_count,
                      const std::string& path) {
  const auto fail = [&](const std::string& problem) { refuse_answer(path, problem); };
  const Answer answer{.boxes = parts[0].to(at::kFloat).contiguous(),
                      .scores = parts[1].to(at::kFloat).contiguous(),
                      .labels = parts[2].to(at::kLong).contiguous(),
                      .counts = parts[3].to(at::kLong).contiguous()};
  if (answer.scores.dim() != 2 || answer.scores.size(0) != image_count) {
    fail("has scores of a wrong shape");
  }
  const std::int64_t limit = answer.scores.size(1);
  if (answer.boxes.sizes() != at::IntArrayRef({image_count, limit, 4}) ||
      answer.labels.sizes() != answer.scores.sizes() ||
      answer.counts.sizes() != at::IntArrayRef({image_count}) ||
      (answer.counts > limit).any().item<bool>()) {
    fail("has boxes, labels or counts of a wrong shape");
  }
  return answer;
}

void append_batch(const Batch& batch, const Answer& answer, const Categories& categories,
                  const std::string& path, std::vector<Detection>& detections) {
  const auto class_count = static_cast<std::int64_t>(categories.size());
  const auto boxes = answer.boxes.accessor<float, 3>();
  const auto scores = answer.scores.accessor<float, 2>();
  const auto labels = answer.labels.accessor<std::int64_t, 2>();
  for (std::int64_t n = 0; n < answer.counts.size(0); ++n) {
    const Sample& sample = batch.samples[static_cast<std::size_t>(n)];
    if (sample.problem) continue;
    const auto count = answer.counts[n].item<std::int64_t>();
    for (std::int64_t d = 0; d < count; ++d) {
      const std::int64_t label = labels[n][d];
      if (label < 0 || label >= class_count) {
        refuse_answer(
            path, cat("has a label out of range (got ", label, ", want 0..", class_count - 1, ")"));
      }
      const auto box = boxes[n][d];
      detections.push_back(coco_detection(sample.image_id,
                                          categories[static_cast<std::size_t>(label)].id,
                                          {box[0], box[1], box[2], box[3]}, scores[n][d]));
    }
  }
}

}  // namespace

std::vector<Detection> detect(ConvertedModel& model, const ImageSource& source, Communicator& ranks,
                              const DetectOptions& options) {
  model.check_task(Task::kDetection);
  model.check_postprocess();
  std::vector<Detection> detections;
  for_each_batch(
      model, ImageSamples(source, {}), ranks, options,
      [&](const Batch& batch, const at::Tensor& images) {
        append_batch(batch, checked_answer(model.detections(images), images.size(0), model.path()),
                     source.categories(), model.path(), detections);
      });
  return gather_detections(ranks, detections);
}

}  // namespace retina
