#include "shared/evaluation/classify.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <span>

#include "shared/base/error.h"
#include "shared/data/evaluation_plan.h"
#include "shared/data/loader.h"
#include "shared/data/picture_source.h"
#include "shared/evaluation/gather.h"
#include "shared/evaluation/visits.h"
#include "shared/model/autocast.h"
#include "shared/model/classifier.h"
#include "shared/watch/activity.h"

namespace retina {
namespace {

// All squares are of one size and small: so many at once are several times as fast as one.
constexpr int kLeastBatch = 32;

// This rank's batches, of places in the set's index.
std::vector<BatchRequest> plan_share(const ShardSet& shards, const ModelConfig& config,
                                     const Communicator& ranks, const DetectOptions& options) {
  const std::vector<std::size_t> places = visited_places(shards.index(), options);
  std::vector<IndexEntry> visited;
  for (const std::size_t place : places) visited.push_back(shards.index()[place]);
  std::vector<BatchRequest> plan = plan_evaluation(
      visited, {.framing = Framing::kSquare,
                .min_side_px = config.min_side_px,
                .max_side_px = config.max_side_px,
                .images_per_batch = std::max(kLeastBatch, options.images_per_batch)});
  for (BatchRequest& request : plan) {
    for (Slot& slot : request.slots) slot.record = places[slot.record];
  }
  return share_of_rank(plan, ranks);
}

}  // namespace

std::vector<ClassOutcome> classify_share(Classifier& network, const ShardSet& shards,
                                         Communicator& ranks, const DetectOptions& options) {
  const PhaseScope phase(ranks.activity(), Phase::kValidate);
  const ModelConfig& config = network.config();
  RETINA_CHECK(config.class_count == shards.manifest().class_count(), "network of ",
               config.class_count, " classes, data of ", shards.manifest().class_count());
  const EvaluationMode evaluation_mode(network);
  const at::NoGradGuard no_gradients;
  const std::vector<BatchRequest> plan = plan_share(shards, config, ranks, options);
  std::int64_t total = 0, done = 0;
  for (const BatchRequest& request : plan) total += static_cast<std::int64_t>(request.slots.size());
  const ShardPictures pictures(shards);
  const PictureSamples source(pictures, config.normalisation());
  const at::Device device = network.device();
  BatchLoader loader(source, loader_options(options, device), one_after_another(plan));
  std::vector<ClassOutcome> outcomes;
  while (!(options.should_stop && options.should_stop())) {
    const auto batch = loader.next();
    if (!batch) break;
    const auto image_count = static_cast<std::int64_t>(batch->samples.size());
    const at::Tensor images =
        at::from_blob(
            batch->images.get(), {image_count, 3, batch->padded_height_px, batch->padded_width_px},
            [memory = batch->images](void*) {}, at::TensorOptions().dtype(at::kFloat))
            .to(device, network.scalar_type());  // [N, 3, S, S]
    at::Tensor logits;
    {
      const AutocastScope autocast(options.precision, device.type());
      logits = network.forward(images);
    }
    logits = logits.to(at::kFloat).cpu().contiguous();  // [N, K]
    for (std::int64_t i = 0; i < image_count; ++i) {
      const Sample& sample = batch->samples[static_cast<std::size_t>(i)];
      outcomes.push_back(
          class_outcome({.image_id = sample.image_id,
                         .label = shards.index()[sample.slot.record].labels.front(),
                         .scores = {logits.const_data_ptr<float>() + i * config.class_count,
                                    static_cast<std::size_t>(config.class_count)}}));
    }
    tell_progress(ranks);
    done += image_count;
    if (options.on_progress) options.on_progress(done, total);
  }
  return outcomes;
}

std::vector<ClassOutcome> classify(Classifier& network, const ShardSet& shards, Communicator& ranks,
                                   const DetectOptions& options) {
  return gather_by_image(ranks, classify_share(network, shards, ranks, options));
}

}  // namespace retina
