#include "shared/evaluation/predict/classify.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "shared/base/error.h"
#include "shared/evaluation/predict/batches.h"
#include "shared/evaluation/predict/converted_model.h"
#include "shared/model/autocast.h"
#include "shared/model/classifier.h"

namespace retina {
namespace {

// Least size of a batch: all squares have one small size, and this many at once are several times
// as fast as one.
constexpr int kLeastBatch = 32;

// Appends the outcomes of a batch. logits: [N, K] of its images.
void append_batch(const Batch& batch, const at::Tensor& logits,
                  std::vector<ClassOutcome>& outcomes) {
  const at::Tensor scores = logits.to(at::kFloat).cpu().contiguous();
  const auto class_count = static_cast<std::size_t>(scores.size(1));
  const float* row = scores.const_data_ptr<float>();
  for (const Sample& sample : batch.samples) {
    outcomes.push_back(class_outcome({.image_id = sample.image_id,
                                      .file_name = sample.file_name,
                                      .label = static_cast<int>(sample.labels.at(0)),
                                      .scores = {row, class_count}}));
    row += class_count;
  }
}

}  // namespace

std::vector<ClassOutcome> classify_share(Classifier& network, const ShardSet& shards,
                                         Communicator& ranks, const DetectOptions& options) {
  DetectOptions running = options;
  running.images_per_batch = std::max(kLeastBatch, options.images_per_batch);
  const ShardSource samples(shards, network.config().normalisation());
  std::vector<ClassOutcome> outcomes;
  for_each_batch(network, {samples, shards.manifest().categories, ranks}, running,
                 [&](const Batch& batch, const at::Tensor& images) {
                   at::Tensor logits;
                   {
                     const AutocastScope autocast(options.precision, network.device().type());
                     logits = network.forward(images).to(at::kFloat);  // [N, K]
                   }
                   if (options.on_logits) options.on_logits(batch, logits);
                   append_batch(batch, logits, outcomes);
                 });
  return outcomes;
}

std::vector<ClassOutcome> classify(Classifier& network, const ShardSet& shards, Communicator& ranks,
                                   const DetectOptions& options) {
  return gather_by_image(ranks, classify_share(network, shards, ranks, options));
}

std::vector<ClassOutcome> classify(ConvertedModel& model, const ShardSet& shards,
                                   Communicator& ranks, const DetectOptions& options) {
  model.check_task(Task::kClassification);
  check_task(shards.manifest(), Task::kClassification, shards.folder());
  const auto class_count = static_cast<std::int64_t>(model.header().categories.size());
  const Categories& categories = shards.manifest().categories;
  RETINA_CHECK(static_cast<std::int64_t>(categories.size()) == class_count, "model of ",
               class_count, " classes, data of ", categories.size());
  std::vector<ClassOutcome> outcomes;
  for_each_batch(model, {ShardSource(shards), categories, ranks}, options,
                 [&](const Batch& batch, const at::Tensor& images) {
                   const at::Tensor logits = model.logits(images);
                   if (logits.sizes() != at::IntArrayRef({images.size(0), class_count})) {
                     refuse_answer(model.path(), "has scores of a wrong shape");
                   }
                   append_batch(batch, logits, outcomes);
                 });
  return gather_by_image(ranks, outcomes);
}

}  // namespace retina
