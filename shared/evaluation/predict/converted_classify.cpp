#include "shared/evaluation/predict/converted_classify.h"

#include <ATen/core/Tensor.h>

#include <span>

#include "shared/base/error.h"
#include "shared/data/sample_source.h"
#include "shared/evaluation/predict/converted_run.h"
#include "shared/evaluation/predict/gather.h"

namespace retina {

namespace {

// [N, K] f32 on the CPU.
at::Tensor checked_scores(const at::Tensor& scores, const at::IntArrayRef& shape,
                          const std::string& path) {
  if (scores.sizes() != shape) refuse_answer(path, "has scores of a wrong shape");
  return scores.cpu().to(at::kFloat).contiguous();
}

}  // namespace

std::vector<ClassOutcome> classify_share(ConvertedModel& model, const ShardSet& shards,
                                         Communicator& ranks, const DetectOptions& options) {
  model.check_task(Task::kClassification);
  check_task(shards.manifest(), Task::kClassification, shards.folder());
  const std::size_t class_count = model.header().categories.size();
  RETINA_CHECK(shards.manifest().categories.size() == class_count, "model of ", class_count,
               " classes, data of ", shards.manifest().categories.size());
  std::vector<ClassOutcome> outcomes;
  for_each_batch(
      model, ShardSource(shards), ranks, options,
      [&](const Batch& batch, const at::Tensor& images) {
        const at::Tensor scores =
            checked_scores(model.logits(images),
                           {images.size(0), static_cast<std::int64_t>(class_count)}, model.path());
        const float* row = scores.const_data_ptr<float>();
        for (const Sample& sample : batch.samples) {
          outcomes.push_back(class_outcome({.image_id = sample.image_id,
                                            .file_name = sample.file_name,
                                            .label = static_cast<int>(sample.labels.at(0)),
                                            .scores = std::span(row, class_count)}));
          row += class_count;
        }
      });
  return outcomes;
}

std::vector<ClassOutcome> classify(ConvertedModel& model, const ShardSet& shards,
                                   Communicator& ranks, const DetectOptions& options) {
  return gather_by_image(ranks, classify_share(model, shards, ranks, options));
}

}  // namespace retina
