#include "train/app.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>

#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/base/host.h"
#include "shared/base/log.h"
#include "shared/base/output.h"
#include "shared/base/signals.h"
#include "shared/checkpoint/run_folder.h"
#include "shared/checkpoint/sealed_file.h"
#include "shared/data/replacing_source.h"
#include "shared/job/rank_program.h"
#include "shared/model/device.h"
#include "shared/shard/shard_set.h"
#include "train/monitor/preview.h"
#include "train/options.h"
#include "train/recipes.h"
#include "train/run/continuation.h"
#include "train/run/initial_weights.h"
#include "train/run/run_dir.h"
#include "train/run/run_state.h"
#include "train/run/start_point.h"
#include "train/scaling/scaling_report.h"
#include "train/scaling_setup.h"
#include "train/trainer.h"

namespace retina {
namespace {

constexpr const char* kUsage =
    "retina-train --train SHARDS [--validation SHARDS] --output RUN [options]\n"
    "mpirun -np N retina-train ...        one process per GPU, gradients by ring-allreduce\n"
    "retina-train --synthetic COUNT [options]      measures the speed, without data";
constexpr const char* kSummary =
    "trains RetinaNet, or a classifier, on shards that coco-pack wrote";

// Under retina-launch, which restarts the same command.
void check_keeps_over_restarts(const TrainOptions& options) {
  if (!options.overwrite || std::getenv("RETINA_LAUNCH_RESTARTS") == nullptr) return;
  throw Error(ErrorKind::kConfig, "--overwrite: each restart would start afresh",
              "give retina-launch --restarts 0, or choose another --output");
}

void check_share(const TrainOptions& options, int rank_count) {
  if (rank_count <= options.step_images()) return;
  throw Error(ErrorKind::kConfig,
              cat("--images-per-step ", options.step_images(), ": too few for ", rank_count,
                  " ranks, each needs one image per step"),
              cat("start at most ", counted(options.step_images(), "rank"),
                  ", or choose another --images-per-step"));
}

Error missing_init(const TrainOptions& options) {
  const std::string hint = backbone_hint(options.recipe);
  return {ErrorKind::kNoInput, cat("--init ", options.init, ": no such file"),
          hint.empty() ? "check the path" : hint};
}

// --init as a file and its fingerprint: of a run's folder the best checkpoint.
void take_init(TrainOptions& options, RunConfig& config) {
  options.init = resolve_checkpoint(options.init);
  config.init_fingerprint = hex64(check_seal(options.init, "checkpoint"));
}

void check_continues(const Found& found, const TrainOptions& options, const RunConfig& config,
                     const TrainingSet& train) {
  retina::check_continues(found, {.config = config,
                                  .model = options.model_config(train.class_count()),
                                  .has_weights = !options.from_scratch(),
                                  .has_trainable_layers = options.trainable_layers.has_value()});
}

// Rank 0 looks at the folder: what to continue from, if anything. All is checked before the folder
// is changed.
std::optional<Found> open_run(RunDir& dir, TrainOptions& options, RunConfig config,
                              const TrainingSet& train) {
  dir.check_own();
  if (options.resumes_file() && is_folder(options.resume)) {
    throw Error(ErrorKind::kData,
                cat("--resume ", options.resume, ": is a folder (want a checkpoint)"),
                "a run continues where --output names its folder, without --resume; --init takes "
                "the best weights of a run's folder");
  }
  if (options.overwrite && options.resumes_file()) {
    check_keeps(dir, {.option = "resume", .file = options.resume});
  }
  if (options.overwrite && !options.from_scratch()) {
    check_keeps(dir, {.option = "init", .file = options.init});
  }
  std::optional<Found> found;
  if (dir.has_run() && !options.overwrite) {
    if (!options.may_resume()) {
      throw Error(ErrorKind::kConfig, cat(options.output, ": already holds a run"),
                  "choose another --output, --resume auto, or --overwrite");
    }
    dir.check_same_run(config);
    found = newest_checkpoint(dir);
    if (found && options.resumes_file()) check_asked_for(dir, *found, options.resume);
  }
  if (!found && options.resumes_file()) {
    found = Found{load_checkpoint(options.resume), options.resume};
    config.resume_fingerprint = hex64(read_seal(options.resume, "checkpoint"));
  }
  if (found) check_continues(*found, options, config, train);
  // A run that continues no longer needs the initial weights.
  if (!found && !options.from_scratch()) {
    if (!path_exists(options.init)) throw missing_init(options);
    if (is_folder(options.init)) take_init(options, config);
    check_initial_weights(options.init, options.model_config(train.class_count()));
  }
  if (options.overwrite) dir.clear();
  dir.remove_leftovers();
  dir.write_config(config);
  return found;
}

// True when the checkpoint to continue from is the run's last.
bool already_finished(const std::optional<Found>& found, const TrainOptions& options,
                      const TrainingSet& train, const RunDir* dir) {
  // A job that was killed between its last checkpoint and its report still has to write the report.
  if (!found || !path_exists(dir->report_path())) return false;
  const RunState state = RunState::parse(found->checkpoint.trainer_json, found->path);
  const TrainingPlan plan(train.source.index(), options.plan_options(), options.steps_per_epoch);
  return state.epoch_closed && (state.step >= options.total_steps(plan.steps_per_epoch()) ||
                                state.adaptive_schedule.ended_early);
}

// A folder that cannot be written, as `error` says, is good enough for a run that has nothing left
// to write: returns it and its last checkpoint then, else nullptr.
std::unique_ptr<RunDir> finished_run_to_read(const Error& error, const TrainOptions& options,
                                             const RunConfig& config, const TrainingSet& train,
                                             std::optional<Found>& found) {
  if (error.kind() != ErrorKind::kCannotCreate || options.overwrite || !options.may_resume()) {
    return nullptr;
  }
  auto dir = std::make_unique<RunDir>(options.output, RunDir::Access::kRead);
  if (!dir->has_run()) return nullptr;
  dir->check_own();
  dir->check_same_run(config);
  std::optional<Found> last = newest_checkpoint(*dir);
  if (!already_finished(last, options, train, dir.get())) return nullptr;
  if (options.resumes_file()) check_asked_for(*dir, *last, options.resume);
  check_continues(*last, options, config, train);
  found = std::move(last);
  return dir;
}

void check_validation_classes(const ShardSet& train, const ShardSet& validation) {
  const auto& a = train.manifest().categories;
  const auto& b = validation.manifest().categories;
  const bool same = std::equal(a.begin(), a.end(), b.begin(), b.end(),
                               [](const auto& x, const auto& y) { return x.name == y.name; });
  if (same) return;
  throw Error(ErrorKind::kConfig,
              cat(validation.folder(), ": classes differ from those of ", train.folder(), " (got ",
                  b.size(), ", want the same ", counted(a.size(), "name"), ")"),
              "pack both sets from annotation files with the same categories");
}

// As COCO and ImageNet.
int synthetic_classes(Task task) {
  return task == Task::kDetection ? 80 : 1000;
}

Categories synthetic_categories(Task task) {
  Categories list;
  for (int i = 1; i <= synthetic_classes(task); ++i) {
    list.push_back({.id = i, .name = cat("class ", i), .supercategory = "synthetic"});
  }
  return list;
}

// The data a rank works on; what is not used stays empty.
struct Data {
  std::optional<ShardSet> train_shards, validation;
  std::unique_ptr<SampleSource> source;
  std::optional<TrainingSet> train;
};

void open_data(const TrainOptions& options, Data& data) {
  if (options.synthetic > 0) {
    data.source = std::make_unique<SyntheticSource>(options.synthetic,
                                                    synthetic_classes(options.task), options.seed,
                                                    options.synthetic_image_size(), options.task);
    data.train.emplace(TrainingSet{
        .source = *data.source,
        .categories = synthetic_categories(options.task),
        .fingerprint = cat("synthetic ", options.synthetic, " of ", options.synthetic_size)});
    return;
  }
  data.train_shards.emplace(options.train, options.scratch);
  const Manifest& manifest = data.train_shards->manifest();
  check_task(manifest, options.task, options.train);
  const auto class_count = static_cast<int>(manifest.categories.size());
  if (options.sampler == Sampler::kClassBalanced) {
    check_tells_classes(data.train_shards->index(), options.train);
  }
  data.source = std::make_unique<ReplacingSource>(std::make_unique<ShardSource>(
      *data.train_shards, options.model_config(class_count).normalisation()));
  data.train.emplace(TrainingSet{.source = *data.source,
                                 .categories = manifest.categories,
                                 .ignored_boxes = manifest.counts.degenerate,
                                 .fingerprint = manifest_hash(manifest)});
  if (options.validation.empty()) return;
  data.validation.emplace(options.validation, options.scratch);
  check_task(data.validation->manifest(), options.task, options.validation);
  check_validation_classes(*data.train_shards, *data.validation);
}

// "node-a: rank 0 cuda:0, rank 1 cuda:1; node-b: ..." on rank 0. Collective.
std::string device_map(Communicator& communicator, const c10::Device& device) {
  const std::vector<std::string> places =
      communicator.gather(cat(host_name(), ": ", device_text(device)), 0);
  std::string text, host;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const std::size_t colon = places[rank].find(": ");
    if (rank == 0 || places[rank].substr(0, colon) != host) {
      host = places[rank].substr(0, colon);
      text += cat(text.empty() ? "" : "; ", host, ":");
    } else {
      text += ",";
    }
    text += cat(" rank ", rank, " ", places[rank].substr(colon + 2));
  }
  return text;
}

// What a user should know before the first step; rank 0.
void tell_start(const TrainOptions& options, const TrainingSet& train, int rank_count) {
  if (options.from_scratch() && options.norm_kind() == Norm::kFrozen && options.synthetic == 0) {
    log_warning(
        "--norm frozen without --init: batch norm stays at its random start and training from "
        "scratch usually diverges; give --init, or use --norm batch");
  }
  const int reference = facts_of_recipe(options.recipe).reference_images_per_step;
  const std::size_t images = train.source.index().size();
  const std::size_t drawn = draws_per_epoch(train.source.index(), options.plan_options());
  log_info("training on ", counted(images, "image"),
           drawn == images ? "" : cat(", ", drawn, " per pass with the repeated ones"),
           train.ignored_boxes == 0
               ? ""
               : cat(" (boxes without an area, left out: ", train.ignored_boxes, ")"),
           ", ", options.step_images(), " per step; learning rate ",
           shortest(options.effective_lr()), " (base ", shortest(options.base_lr()),
           ", --lr-scaling ", word_of(kLrScalings, options.lr_scaling), ")");
  if (options.step_images() % rank_count != 0) {
    const auto most = largest_share(static_cast<std::size_t>(options.step_images()),
                                    static_cast<std::size_t>(rank_count));
    log_info(rank_count, " ranks share ", options.step_images(),
             " images unevenly: ", options.step_images() % rank_count, " of them have ", most,
             " per step, the others ", most - 1, " and wait (",
             shortest(std::round(1000.0 * options.step_images() /
                                 (static_cast<double>(most) * rank_count)) /
                      10),
             " % of the ranks' time is used)");
  }
  if (options.recipe != "none" && options.lr_scaling == LrScaling::kNone &&
      options.step_images() != reference) {
    log_info("the recipe's learning rate is for ", counted(reference, "image"),
             " per step; --lr-scaling linear adapts it");
  }
}

// What coco-pack had to leave out counts in no figure either; rank 0.
void tell_quarantined(const char* option, const std::optional<ShardSet>& shards) {
  const std::int64_t count = shards ? shards->manifest().counts.quarantined : 0;
  if (count == 0) return;
  log_info("--", option, ": ", count,
           count == 1 ? " image of the set is" : " images of the set are", " quarantined (",
           kQuarantineFile, ") and left out");
}

// --device auto decides on each rank: a node whose driver is broken would use its CPUs.
void check_same_device(const c10::Device& device, Communicator& communicator) {
  const std::int64_t with_gpu = communicator.all_reduce_sum(device.is_cuda() ? 1 : 0);
  if (with_gpu == 0 || with_gpu == communicator.size()) return;
  std::string without;
  const std::string own = device.is_cuda() ? "" : cat(communicator.rank());
  for (const std::string& rank : communicator.gather(own, 0)) {
    if (!rank.empty()) without += cat(without.empty() ? "" : ", ", rank);
  }
  // Rank 0 reports it and ends the job; the others wait for that.
  if (!communicator.is_root()) communicator.barrier();
  throw Error(ErrorKind::kUnavailable,
              cat("--device: no GPU on rank ", without, " of ", communicator.size()),
              "check nvidia-smi on that node, or give --device cpu");
}

// A run keeps its global batch, whatever decided it.
std::vector<EffectiveOption> effective_options(const Cli& cli, const TrainOptions& options) {
  std::vector<EffectiveOption> result = cli.effective();
  std::erase_if(result, [](const auto& option) { return option.name == "images-per-rank"; });
  for (EffectiveOption& option : result) {
    if (option.name == "images-per-step") option.json = cat(options.step_images());
  }
  return result;
}

// What would be trained on, as a page; rank 0 writes it. A run in the folder stays as it is.
int preview(const TrainOptions& options, const Cli& cli, Communicator& communicator) {
  root_first(communicator, [&] {
    if (!communicator.is_root()) return;
    const std::string path = cat(options.output, "/", kPreviewFile);
    check_may_replace(path, kPreviewTitle, "--output");
    Data data;
    open_data(options, data);
    const TrainingPlan plan(data.train->source.index(), options.plan_options(),
                            options.steps_per_epoch);
    const std::string page = render_preview(
        {.train = *data.train,
         .folder = options.train,
         .image_count = options.preview,
         .total_steps = options.total_steps(plan.steps_per_epoch()),
         .plan = options.plan_options(),
         .augment = word_of(kAugments, options.augment_set()),
         .normalisation = options.model_config(data.train->class_count()).normalisation(),
         .anchor_sizes = options.anchor_sizes,
         .foreground_iou = options.foreground_iou,
         .threads = options.threads,
         .all_options = effective_options(cli, options)});
    make_folder(options.output);
    write_file_atomically(path, page);
    std::cout << "preview: " << path << '\n';
  });
  return 0;
}

int train(TrainOptions options, const Cli& cli, Communicator& communicator) {
  Data data;
  std::unique_ptr<RunDir> dir;
  std::optional<Found> found;
  RunConfig config{.options = effective_options(cli, options),
                   .init_none = options.init == "none",
                   .effective_lr = options.effective_lr()};
  c10::Device device = c10::kCPU;
  const NodePlace place = {.local_rank = communicator.local_rank(),
                           .local_size = communicator.local_size(),
                           .sees_own_gpu = is_alone_on_node(communicator, only_gpu())};
  // Checks the options against the job, opens device, data and run folder; rank 0 first.
  root_first(communicator, [&] {
    check_rank_count(options.expect_ranks, communicator);
    check_share(options, communicator.size());
    if (!options.scaling_report.empty()) check_even_shares(options, communicator.size());
    if (communicator.is_root() && !options.timeline.empty()) {
      check_may_replace(options.timeline, kTimelineMark, "--timeline");
    }
    device = choose_device(options.device, place);
    open_data(options, data);
    config.train_fingerprint = data.train->fingerprint;
    if (data.validation) {
      config.validation_fingerprint =
          validation_identity(manifest_hash(data.validation->manifest()), options.validation_images,
                              data.validation->index().size());
    }
    if (!communicator.is_root() || !options.writes()) return;
    // A run's folder may have another best checkpoint by the time that this run continues.
    const bool is_known_folder = is_folder(options.init) && !options.overwrite &&
                                 RunDir::init_of(options.output) == options.init;
    if (!options.from_scratch() && path_exists(options.init) && !is_known_folder) {
      take_init(options, config);
    }
    try {
      dir = std::make_unique<RunDir>(options.output);
    } catch (const Error& error) {
      dir = finished_run_to_read(error, options, config, *data.train, found);
      if (!dir) throw;
    }
    if (!found) found = open_run(*dir, options, config, *data.train);
  });
  // How this process computes.
  check_same_device(device, communicator);
  set_tf32(false);  // except for the products of training, see replica.cpp
  at::set_num_threads(threads_of_rank(options.compute_threads, communicator));
  // A finished run has nothing left to do.
  if (communicator.all_reduce_max(
          already_finished(found, options, *data.train, dir.get()) ? 1 : 0) != 0) {
    if (communicator.is_root()) {
      std::cout << options.output << ": already finished; report: " << dir->report_path() << '\n';
    }
    return 0;
  }
  // The trainer, with what reports on it.
  const bool resumes = communicator.all_reduce_max(found ? 1 : 0) != 0;
  std::optional<ScalingReport> scaling;
  if (!options.scaling_report.empty()) {
    scaling.emplace(options.scaling_report,
                    scaling_data(options, *data.train, communicator.size(), device), communicator);
  }
  if (communicator.is_root() && !options.tensorboard.empty()) {
    make_folder(options.tensorboard, "--tensorboard");
  }
  std::optional<TimelineFile> timeline;
  if (!options.timeline.empty()) {
    timeline.emplace(options.timeline, parse_step_window("timeline-steps", options.timeline_steps),
                     communicator);
  }
  Trainer trainer({.options = options,
                   .effective_options = config.options,
                   .train = *data.train,
                   .validation = data.validation ? &*data.validation : nullptr,
                   .validation_fingerprint = config.validation_fingerprint,
                   .communicator = communicator,
                   .run_dir = dir.get(),
                   .timeline = timeline ? &*timeline : nullptr,
                   .device = device});
  // Where it starts from: a checkpoint, other weights, or its own.
  if (resumes) {
    if (found) log_info("continuing from ", found->path);
    trainer.resume(found ? found->checkpoint : Checkpoint{}, found ? found->path : "");
    found.reset();
  } else if (!options.from_scratch()) {
    const Checkpoint initial =
        communicator.is_root() ? load_checkpoint(options.init) : Checkpoint{};
    trainer.initialise_from(initial, options.init);
  }
  // What a user should know before the first step.
  const std::string map = device_map(communicator, device);
  if (communicator.is_root()) {
    log_info(map);
    tell_start(options, *data.train, communicator.size());
    warn_of_slow_precision(options.precision, device);
    tell_quarantined("train", data.train_shards);
    tell_quarantined("validation", data.validation);
  }
  if (data.train_shards) {
    data.train_shards->stage_ahead([&] { return trainer.shards_ahead(); },
                                   {.always = options.stage_always,
                                    .limit_bytes = options.stage_limit_bytes,
                                    .announces = communicator.is_root()});
  }
  // The work, and what is printed about it.
  install_stop_signals({.asked = communicator.is_root() && log_level() <= LogLevel::kInfo
                                     ? "; training ends after this step, with what it has to save"
                                     : ""});
  const int code = trainer.run();
  if (timeline) timeline->finish();
  const bool scaling_added =
      scaling && code == 0 && scaling->add(trainer.scaling_run(), communicator);
  const std::string rates = options.synthetic > 0 ? trainer.throughput() : "";
  if (communicator.is_root() && code == 0) {
    std::cout << rates;
    if (scaling_added) {
      std::cout << "scaling report: " << options.scaling_report << "/scaling.html\n";
    } else if (scaling) {
      log_warning("no step was left to do, so ", options.scaling_report, " is unchanged");
    }
    if (dir) std::cout << "done; report: " << dir->report_path() << '\n';
  }
  return code;
}

}  // namespace

int retina_train(int argc, const char* const* argv) {
  register_torch_versions();
  TrainOptions options;
  Cli cli("retina-train", kUsage, kSummary);
  declare_options(cli, options);
  cli.validate([&options] { check_keeps_over_restarts(options); });
  return run_rank_program(
      "retina-train", cli, argc, argv,
      [&](Communicator& communicator) {
        // Until there is something to save.
        install_stop_signals({.limit_s = 0,
                              .ended = communicator.is_root()
                                           ? " before the first step; run the same command again"
                                           : ""});
        const TrainOptions resolved = options.for_ranks(communicator.size());
        return options.preview > 0 ? preview(resolved, cli, communicator)
                                   : train(resolved, cli, communicator);
      },
      options.watch);
}

}  // namespace retina
