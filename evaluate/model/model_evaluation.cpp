#include <ATen/Parallel.h>
#include <algorithm>

#include <memory>
#include <optional>
#include <vector>

#include "evaluate/model/image_files.h"
#include "evaluate/model/loaded_model.h"
#include "evaluate/model_library.h"
#include "evaluate/outcome.h"
#include "shared/base/error.h"
#include "shared/base/log.h"
#include "shared/base/url.h"
#include "shared/checkpoint/pretrained.h"
#include "shared/checkpoint/run_folder.h"
#include "shared/data/evaluation_plan.h"
#include "shared/evaluation/score/ground_truth.h"
#include "shared/evaluation/score/metrics.h"
#include "shared/job/rank_gpus.h"
#include "shared/job/rank_program.h"
#include "shared/model/autocast.h"
#include "shared/model/device.h"
#include "shared/ops/own_kernels.h"
#include "shared/shard/shard_set.h"

namespace retina {

namespace {

// Sets up the process as the options say, and returns the device.
c10::Device prepare_device(const EvalOptions& options, Communicator& ranks) {
  const std::vector<RankGpus> gpus = gpus_of_ranks(ranks, visible_gpus());
  c10::Device device = choose_device(options.device);
  if (device.is_cuda()) {
    device.set_index(static_cast<c10::DeviceIndex>(gpu_of_rank(gpus, ranks.rank())));
  }
  if (ranks.is_root()) warn_of_slow_precision(options.precision, device, /*trains=*/false);
  set_tf32(false);  // checkpoint and converted model have the same AP, on any device
  at::set_num_threads(threads_of_rank(options.compute_threads, ranks));
  replace_wrong_kernels(device, type_of(options.precision), ranks);
  return device;
}

bool classifies(const LoadedModel& model) {
  return model.task() == Task::kClassification;
}

LoadedModel load_model(const EvalOptions& options, const c10::Device& device) {
  LoadedModel model(options, device);
  if (classifies(model)) check_classifier_options(options);
  return model;
}

int evaluate_on_files(const EvalOptions& options, const Cli& cli, const c10::Device& device,
                      Communicator& ranks) {
  std::optional<LoadedModel> model;
  root_first(ranks, [&] {
    model.emplace(load_model(options, device));
    if (!classifies(*model)) return;
    throw Error(ErrorKind::kConfig,
                cat(options.model, ": is a classifier; --images runs detectors"),
                "pack the images with coco-pack --format folders and give --data");
  });
  detect_image_files(options, cli, *model, device, ranks);
  // Rank 0 may still be drawing, and the others do not wait long for a rank that has left.
  ranks.barrier();
  return 0;
}

// An evaluation of a model on a set of shards. Every rank has one; the output folder, and a result
// that it may hold already, are on rank 0.
class ShardEvaluation {
 public:
  ShardEvaluation(const EvalOptions& options, const Cli& cli, const c10::Device& device,
                  Communicator& ranks)
      : options_(options), cli_(cli), device_(device), ranks_(ranks) {}

  // Opens the inputs and the output folder.
  void open() {
    shards_.emplace(options_.data, options_.scratch);
    model_.emplace(load_model(options_, device_));
    check_task(shards_->manifest(), model_->task(), options_.data);
    check_tiling();
    check_same_classes(model_->categories(), shards_->manifest().categories, options_.model);
    if (!ranks_.is_root()) return;
    folder_ = std::make_unique<EvaluationFolder>(options_.output);
    const std::string data_hash = manifest_hash(shards_->manifest());
    EvalIdentity identity = classifies(*model_) ? classifier_identity(options_, data_hash)
                                                : detection_identity(options_, "data", data_hash);
    if (!classifies(*model_)) add_count_best(identity, detection_limit());
    const auto done = folder_->begin(identity, cli_.effective(), options_.overwrite);
    if (done) done_metric_ = headline_metric(*done).as_double();
  }

  // Runs the model on all ranks and scores on rank 0, or reports that this is done. Returns the
  // exit code. Collective.
  int run() {
    if (ranks_.all_reduce_max(done_metric_ ? 1 : 0) != 0) return done_metric_ ? report_done() : 0;
    const DetectOptions running = detect_options(options_, device_, ranks_);
    return classifies(*model_) ? classify(running) : detect(running);
  }

 private:
  void check_tiling() const {
    if (is_tiled(shards_->index()) && !options_.tile.empty()) {
      throw Error(ErrorKind::kConfig,
                  cat("--tile: the images of ", options_.data, " are tiles already"),
                  "leave out --tile, or give the set that coco-pack made without --tile");
    }
  }

  int report_done() const {
    return already_done(options_, *folder_, {model_->task(), *done_metric_, quarantined_count()});
  }

  void report_start(const SampleSource& samples) const {
    log_info("evaluating ", options_.model, " (", model_->kind(), ") on ",
             visited_text(samples.index(), options_.max_images), " with ",
             counted(ranks_.size(), "rank"), ", device ", device_text(device_));
    if (!classifies(*model_) && !is_tiled(shards_->index())) {
      const std::string warning = scale_warning(model_->scale(), shards_->index(), options_.tile);
      if (!warning.empty()) log_warning(options_.data, ": ", warning);
    }
    const std::string left_out = left_out_tiles_text(*shards_);
    if (!left_out.empty()) log_warning(left_out);
    const std::int64_t rescaled = shards_->manifest().counts.rescaled;
    if (rescaled == 0 || classifies(*model_)) return;
    log_warning(shards_->folder(), ": ", counted(rescaled, "image"),
                rescaled == 1 ? " was" : " were", " downscaled by coco-pack --max-side; size ",
                "classes and detections.json use the stored resolution");
  }

  int classify(DetectOptions running) {
    if (ranks_.is_root()) report_start(ShardSource(*shards_));
    running.on_progress = progress_line(ranks_, "evaluating");
    const std::vector<ClassOutcome> outcomes = model_->classify_all(*shards_, ranks_, running);
    if (!folder_) return 0;
    return as_io_error([&] {
      return evaluate_classifier_outputs(
          options_, cli_, *folder_,
          {.subject = subject(), .outcomes = outcomes, .shards = *shards_, .on_progress = [&] {
             report_progress(ranks_);
           }});
    });
  }

  int detect(DetectOptions running) {
    const ShardSource images(*shards_, model_->normalisation());
    const std::unique_ptr<TiledSource> tiles = tiled(images, options_);
    const SampleSource& samples = tiles ? static_cast<const SampleSource&>(*tiles) : images;
    if (ranks_.is_root()) report_start(samples);
    running.on_progress =
        progress_line(ranks_, "evaluating", is_tiled(samples.index()) ? "tiles" : "images");
    const std::vector<Detection> detections =
        model_->detect_all({samples, shards_->manifest().categories, ranks_}, running);
    return folder_ ? as_io_error([&] { return score(detections); }) : 0;
  }

  // Scores on rank 0, which reads every record again, while the other ranks wait.
  int score(const std::vector<Detection>& detections) {
    const auto on_progress = [&] { report_progress(ranks_); };
    folder_->check_present();
    const FileNames file_names = file_names_of(shards_->index());
    write_results(folder_->detections_path(), detections,
                  [&](std::int64_t image_id) -> std::string_view {
                    const auto name = file_names.find(image_id);
                    return name == file_names.end() ? "" : std::string_view(name->second);
                  });
    Instances truth = ground_truth_of(*shards_, on_progress);
    keep_first_images(truth, options_.max_images);
    const BoxGroups boxes(truth, detections, 0, detection_limit());
    CocoMetrics metrics = evaluate_detections(boxes);
    metrics.quarantined_count = quarantined_count();
    on_progress();
    std::vector<std::string> notes = shards_->manifest().notes;
    notes.push_back(model_->capped_ap());
    return publish(options_, cli_, *folder_,
                   {.subject = subject(),
                    .boxes = boxes,
                    .metrics = metrics,
                    .shards = &*shards_,
                    .notes = std::move(notes),
                    .on_progress = on_progress});
  }

  std::uint32_t detection_limit() const {
    return options_.detection_limit(is_tiled(shards_->index()) || !options_.tile.empty());
  }
  std::int64_t quarantined_count() const { return shards_->manifest().counts.quarantined; }
  std::string subject() const { return cat(options_.model, " on ", options_.data); }

  const EvalOptions& options_;
  const Cli& cli_;
  c10::Device device_;
  Communicator& ranks_;
  std::optional<ShardSet> shards_;
  std::optional<LoadedModel> model_;
  std::unique_ptr<EvaluationFolder> folder_;  // on rank 0
  std::optional<double> done_metric_;  // metric of a finished evaluation: AP, or top-1 accuracy
};

}  // namespace

extern "C" int retina_evaluate_model(const EvalOptions& given, const Cli& cli,
                                     Communicator& ranks) {
  EvalOptions options = given;
  // Chosen once: a run that is still training may have another best checkpoint a moment later.
  if (ranks.is_root()) {
    std::string near = is_url(options.data) ? "" : options.data;
    if (!options.images.empty()) {
      near = options.images.front();
      near.resize(std::min(near.size(), near.find_first_of("*?[")));  // the part before a glob
    }
    options.model =
        resolve_checkpoint(resolve_name(options.model, {.option = "--model", .near = near}));
  }
  options.model = ranks.broadcast(options.model, 0);
  const c10::Device device = prepare_device(options, ranks);
  if (!options.images.empty()) return evaluate_on_files(options, cli, device, ranks);
  ShardEvaluation evaluation(options, cli, device, ranks);
  root_first(ranks, [&] { evaluation.open(); });
  return static_cast<int>(ranks.all_reduce_max(evaluation.run()));
}

}  // namespace retina
