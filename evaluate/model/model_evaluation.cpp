#include "evaluate/model/model_evaluation.h"

#include <ATen/Parallel.h>

#include <memory>
#include <optional>
#include <vector>

#include "evaluate/classified.h"
#include "evaluate/model/loaded_model.h"
#include "evaluate/model/loose_pictures.h"
#include "evaluate/outcome.h"
#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/base/json.h"
#include "shared/base/log.h"
#include "shared/base/progress.h"
#include "shared/checkpoint/run_folder.h"
#include "shared/evaluation/ground_truth.h"
#include "shared/evaluation/metrics.h"
#include "shared/job/rank_program.h"
#include "shared/model/device.h"
#include "shared/shard/shard_set.h"

namespace retina {

namespace {

int finish_on_root(const EvalOptions& options, const Cli& cli, const ShardSet& shards,
                   const OutputFolder& folder, const std::vector<Detection>& detections,
                   Communicator& ranks) {
  folder.check_present();
  write_results(folder.detections_path(), detections);
  // The other ranks wait for this one, which reads every record again.
  Instances truth = ground_truth_of(shards, [&] { tell_progress(ranks); });
  if (options.max_images > 0) {
    keep_images(truth, detected_images(shards, {.max_images = options.max_images}));
  }
  const BoxGroups boxes(truth, detections);
  CocoMetrics metrics = evaluate_detections(boxes);
  metrics.quarantined_count = shards.manifest().counts.quarantined;
  tell_progress(ranks);
  return publish(options, cli, folder,
                 {.subject = cat(options.model, " on ", options.data),
                  .boxes = boxes,
                  .metrics = metrics,
                  .shards = &shards,
                  .on_progress = [&] { tell_progress(ranks); }});
}

}  // namespace

extern "C" int retina_evaluate_model(const EvalOptions& given, const Cli& cli,
                                     Communicator& ranks) {
  EvalOptions options = given;
  // Chosen once: a run that still trains may have another best a moment later.
  if (ranks.is_root()) options.model = resolve_checkpoint(options.model);
  options.model = ranks.broadcast(options.model, 0);
  const c10::Device device =
      choose_device(options.device, {.local_rank = ranks.local_rank(),
                                     .local_size = ranks.local_size(),
                                     .sees_own_gpu = is_alone_on_node(ranks, only_gpu())});
  if (ranks.is_root()) warn_of_slow_precision(options.precision, device);
  set_tf32(false);  // checkpoint and converted model have the same AP, on any device
  at::set_num_threads(threads_of_rank(options.compute_threads, ranks));
  // Opens the inputs on every rank and the output folder on rank 0, which may hold the answer.
  std::optional<ShardSet> opened;
  std::optional<LoadedModel> model;
  std::unique_ptr<OutputFolder> folder;
  std::optional<double> done_ap;
  root_first(ranks, [&] {
    if (options.images.empty()) opened.emplace(options.data, options.scratch);
    model.emplace(options, device);
    check_detector_options(options);
    if (!opened) return;
    check_task(opened->manifest(), Task::kDetection, options.data);
    check_same_classes(model->categories(), opened->manifest().categories, options.model);
    if (!ranks.is_root()) return;
    folder = std::make_unique<OutputFolder>(options.output);
    done_ap = folder->begin(
        detection_identity(options, "data", hex64(xxh3(encode_manifest(opened->manifest())))),
        cli.effective(), options.overwrite);
  });
  if (!opened) {
    detect_loose_pictures(options, cli, *model, device, ranks);
    ranks.barrier();  // rank 0 may still draw: a rank that has left does not wait long for the
                      // others
    return 0;
  }
  const ShardSet& shards = *opened;
  int code = 0;
  if (ranks.all_reduce_max(done_ap ? 1 : 0) != 0) {
    if (done_ap) {
      code = already_done(options, *folder, *done_ap, shards.manifest().counts.quarantined);
    }
  } else {
    // Says what is measured, then detects on all ranks and scores on rank 0.
    std::unique_ptr<Progress> progress;
    if (ranks.is_root()) {
      log_info("evaluating ", options.model, " (", model->kind(), ") on ", shards.index().size(),
               " images with ", ranks.size(), ranks.size() == 1 ? " rank" : " ranks", ", device ",
               device_text(device));
      if (const std::int64_t rescaled = shards.manifest().counts.rescaled; rescaled > 0) {
        log_warning(shards.folder(), ": ", rescaled, " images were made smaller by coco-pack ",
                    "--max-side; small, medium, large and detections.json are in stored pixels");
      }
    }
    DetectOptions detecting = detect_options(options, device, ranks);
    detecting.on_progress = [&](std::int64_t done, std::int64_t total) {
      if (!ranks.is_root()) return;
      if (!progress) progress = std::make_unique<Progress>("evaluating", total, "images");
      progress->update(done);
    };
    const std::vector<Detection> detections =
        model->detect_all(ShardPictures(shards), ranks, detecting);
    if (progress) progress->finish();
    if (folder) {
      code =
          midway([&] { return finish_on_root(options, cli, shards, *folder, detections, ranks); });
    }
  }
  return static_cast<int>(ranks.all_reduce_max(code));
}

}  // namespace retina
