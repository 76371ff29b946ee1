#include "evaluate/model/model_evaluation.h"

#include <ATen/Parallel.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "evaluate/classified.h"
#include "evaluate/model/image_files.h"
#include "evaluate/model/loaded_model.h"
#include "evaluate/outcome.h"
#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/base/log.h"
#include "shared/base/progress.h"
#include "shared/checkpoint/run_folder.h"
#include "shared/evaluation/score/ground_truth.h"
#include "shared/evaluation/score/metrics.h"
#include "shared/job/rank_program.h"
#include "shared/model/device.h"
#include "shared/onnx/isolated_session.h"
#include "shared/shard/shard_set.h"

namespace retina {

namespace {

int finish_on_root(const EvalOptions& options, const Cli& cli, const ShardSet& shards,
                   const EvaluationFolder& folder, const std::vector<Detection>& detections,
                   Communicator& ranks) {
  folder.check_present();
  const FileNames file_names = file_names_of(shards.index());
  write_results(folder.detections_path(), detections,
                [&](std::int64_t image_id) -> std::string_view {
                  const auto name = file_names.find(image_id);
                  return name == file_names.end() ? "" : std::string_view(name->second);
                });
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

void tell_start(const EvalOptions& options, const LoadedModel& model, const ShardSet& shards,
                const c10::Device& device, int rank_count) {
  log_info("evaluating ", options.model, " (", model.kind(), ") on ",
           counted(shards.index().size(), "image"), " with ", counted(rank_count, "rank"),
           ", device ", device_text(device));
  const std::int64_t rescaled = shards.manifest().counts.rescaled;
  if (rescaled == 0 || model.task() == Task::kClassification) return;
  log_warning(shards.folder(), ": ", counted(rescaled, "image"),
              rescaled == 1 ? " was made" : " were made", " smaller by coco-pack ",
              "--max-side; small, medium, large and detections.json are in stored pixels");
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
  std::unique_ptr<EvaluationFolder> folder;
  std::optional<double> done_metric;  // AP, or top-1 accuracy
  root_first(ranks, [&] {
    if (options.images.empty()) opened.emplace(options.data, options.scratch);
    model.emplace(options, device);
    const bool classifies = model->task() == Task::kClassification;
    classifies ? check_classifier_options(options) : check_detector_options(options);
    if (!opened && classifies) {
      throw Error(ErrorKind::kConfig,
                  cat(options.model, ": is a classifier; --images runs detectors"),
                  "pack the images with coco-pack --format folders and give --data");
    }
    if (!opened) return;
    check_task(opened->manifest(), model->task(), options.data);
    check_same_classes(model->categories(), opened->manifest().categories, options.model);
    if (!ranks.is_root()) return;
    folder = std::make_unique<EvaluationFolder>(options.output);
    const std::string data_hash = manifest_hash(opened->manifest());
    done_metric = folder->begin(classifies ? classifier_identity(options, data_hash)
                                           : detection_identity(options, "data", data_hash),
                                cli.effective(), options.overwrite);
  });
  if (!opened) {
    detect_image_files(options, cli, *model, device, ranks);
    ranks.barrier();  // rank 0 may still draw: a rank that has left does not wait long for the
                      // others
    return 0;
  }
  const ShardSet& shards = *opened;
  const bool classifies = model->task() == Task::kClassification;
  int code = 0;
  if (ranks.all_reduce_max(done_metric ? 1 : 0) != 0) {
    const std::int64_t quarantined = shards.manifest().counts.quarantined;
    if (done_metric) {
      code = classifies ? already_classified(options, *folder, *done_metric, quarantined)
                        : already_done(options, *folder, *done_metric, quarantined);
    }
  } else {
    // Says what is measured, then runs the model on all ranks and scores on rank 0.
    if (ranks.is_root()) tell_start(options, *model, shards, device, ranks.size());
    std::unique_ptr<Progress> progress;
    DetectOptions running = detect_options(options, device, ranks);
    running.on_progress = [&](std::int64_t done, std::int64_t total) {
      if (!ranks.is_root()) return;
      if (!progress) progress = std::make_unique<Progress>("evaluating", total, "images");
      progress->update(done);
    };
    std::function<int()> finish;  // on rank 0
    if (classifies) {
      finish = [&, outcomes = model->classify_all(shards, ranks, running)] {
        return evaluate_classifier_outputs(options, cli, *folder,
                                           {.subject = cat(options.model, " on ", options.data),
                                            .outcomes = outcomes,
                                            .shards = shards,
                                            .on_progress = [&] { tell_progress(ranks); }});
      };
    } else {
      finish = [&, detections = model->detect_all(ShardImages(shards), ranks, running)] {
        return finish_on_root(options, cli, shards, *folder, detections, ranks);
      };
    }
    if (progress) progress->finish();
    if (folder) code = as_io_error(finish);
  }
  return static_cast<int>(ranks.all_reduce_max(code));
}

extern "C" int retina_isolated_main(int argc, const char* const* argv) {
  return isolated_main(argc, argv);
}

}  // namespace retina
