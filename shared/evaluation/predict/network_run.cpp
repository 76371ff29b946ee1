#include "shared/evaluation/predict/network_run.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <vector>

#include "shared/base/error.h"
#include "shared/comm/activity.h"
#include "shared/data/evaluation_plan.h"
#include "shared/data/loader.h"
#include "shared/evaluation/predict/visits.h"
#include "shared/model/network.h"

namespace retina {
namespace {

std::vector<BatchRequest> plan_share(const ImageSource& source, const ModelConfig& config,
                                     const Communicator& ranks, const DetectOptions& options) {
  const std::vector<std::size_t> places = visited_places(source.index(), options);
  std::vector<IndexEntry> visited;
  for (const std::size_t place : places) visited.push_back(source.index()[place]);
  const bool is_square = config.task == Task::kClassification;
  std::vector<BatchRequest> plan =
      plan_evaluation(visited, {.framing = is_square ? Framing::kSquare : Framing::kWhole,
                                .min_side_px = config.min_side_px,
                                .max_side_px = config.max_side_px,
                                .images_per_batch = options.images_per_batch});
  for (BatchRequest& request : plan) {
    for (Slot& slot : request.slots) slot.record = places[slot.record];
  }
  return share_of_rank(plan, ranks);
}

}  // namespace

void run_network(Network& network, const ImageSource& source, Communicator& ranks,
                 const DetectOptions& options, const NetworkInput& use) {
  const PhaseScope phase(ranks.activity(), Phase::kValidate);
  const ModelConfig& config = network.config();
  const auto class_count = static_cast<int>(source.categories().size());
  RETINA_CHECK(config.class_count == class_count, "network of ", config.class_count,
               " classes, data of ", class_count);
  const EvaluationMode evaluation_mode(network);
  const at::NoGradGuard no_gradients;
  const std::vector<BatchRequest> plan = plan_share(source, config, ranks, options);
  std::int64_t total = 0, done = 0;
  for (const BatchRequest& request : plan) total += static_cast<std::int64_t>(request.slots.size());
  const ImageSamples samples(source, config.normalisation());
  const at::Device device = network.device();
  BatchLoader loader(samples, loader_options(options, device), one_after_another(plan));
  while (!(options.should_stop && options.should_stop())) {
    const auto batch = loader.next();
    if (!batch) break;
    const auto image_count = static_cast<std::int64_t>(batch->samples.size());
    use(*batch,
        at::from_blob(
            batch->images.get(), {image_count, 3, batch->padded_height_px, batch->padded_width_px},
            [memory = batch->images](void*) {}, at::TensorOptions().dtype(at::kFloat))
            .to(device, network.scalar_type()));
    for (const Sample& sample : batch->samples) {
      if (sample.problem && options.on_skipped) {
        options.on_skipped(sample.slot.record, *sample.problem);
      }
    }
    tell_progress(ranks);
    done += image_count;
    if (options.on_progress) options.on_progress(done, total);
  }
}

}  // namespace retina
