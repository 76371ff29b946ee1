#include "shared/evaluation/predict/classify.h"

#include <algorithm>

#include "shared/data/image_source.h"
#include "shared/evaluation/predict/gather.h"
#include "shared/evaluation/predict/network_run.h"
#include "shared/model/autocast.h"
#include "shared/model/classifier.h"

namespace retina {
namespace {

// All squares are of one size and small: so many at once are several times as fast as one.
constexpr int kLeastBatch = 32;

}  // namespace

std::vector<ClassOutcome> classify_share(Classifier& network, const ShardSet& shards,
                                         Communicator& ranks, const DetectOptions& options) {
  DetectOptions running = options;
  running.images_per_batch = std::max(kLeastBatch, options.images_per_batch);
  std::vector<ClassOutcome> outcomes;
  run_network(network, ShardImages(shards), ranks, running,
              [&](const Batch& batch, const at::Tensor& images) {
                at::Tensor logits;
                {
                  const AutocastScope autocast(options.precision, network.device().type());
                  logits = network.forward(images);
                }
                logits = logits.to(at::kFloat).cpu().contiguous();  // [N, K]
                const auto class_count = static_cast<std::size_t>(logits.size(1));
                const float* row = logits.const_data_ptr<float>();
                for (const Sample& sample : batch.samples) {
                  const int label = shards.index()[sample.slot.record].labels.front();
                  outcomes.push_back(class_outcome({.image_id = sample.image_id,
                                                    .file_name = sample.file_name,
                                                    .label = label,
                                                    .scores = {row, class_count}}));
                  row += class_count;
                }
              });
  return outcomes;
}

std::vector<ClassOutcome> classify(Classifier& network, const ShardSet& shards, Communicator& ranks,
                                   const DetectOptions& options) {
  return gather_by_image(ranks, classify_share(network, shards, ranks, options));
}

}  // namespace retina
