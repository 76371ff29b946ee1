#include "train/app.h"

#include <ATen/Parallel.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <set>
#include <string>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/host.h"
#include "shared/base/json.h"
#include "shared/base/log.h"
#include "shared/base/output.h"
#include "shared/base/signals.h"
#include "shared/checkpoint/run_folder.h"
#include "shared/comm/communicator.h"
#include "shared/data/evaluation_plan.h"
#include "shared/job/rank_gpus.h"
#include "shared/job/rank_program.h"
#include "shared/model/autocast.h"
#include "shared/model/device.h"
#include "shared/ops/own_kernels.h"
#include "shared/shard/set_notes.h"
#include "train/initial_model.h"
#include "train/job.h"
#include "train/recipes.h"
#include "train/report/preview.h"
#include "train/trainer.h"

namespace retina {
namespace {

constexpr const char* kUsage =
    "retina-train --train SHARDS... [--validation SHARDS] --output RUN [options]\n"
    "mpirun -np N retina-train ...        one process per GPU, gradients by ring-allreduce\n"
    "retina-train --synthetic COUNT [options]      measures the speed, without data";
constexpr const char* kSummary =
    "trains RetinaNet, or a classifier, on shards that coco-pack wrote";

// Throws kConfig for --overwrite under retina-launch, which restarts the same command.
void check_keeps_over_restarts(const TrainOptions& options) {
  if (!options.checkpoints.overwrite || std::getenv("RETINA_LAUNCH_RESTARTS") == nullptr) return;
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

// Returns a text like "node-a: rank 0 cuda:0, rank 1 cuda:1; node-b: ..." on rank 0. Collective.
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

// Warns, on rank 0, when no image has a box to train on.
void warn_of_no_boxes(const TrainOptions& options, const TrainingData& data) {
  if (options.classifies() || options.data.synthetic > 0) return;
  std::int64_t boxes = 0, crowds = 0;
  for (const ShardSet& set : data.train_shards) {
    boxes += set.manifest().counts.trainable;
    crowds += set.manifest().counts.crowds;
  }
  if (boxes > 0 || (crowds > 0 && options.data.train_on_crowds)) return;
  log_warning("no image has a box to train on",
              crowds > 0 ? cat(": all ", crowds,
                               " are crowds, which \"train-on-crowds\": \"on\" in --config takes")
                         : "; coco-pack's report says what became of them");
}

// Returns a text like "340 tiles of 12 images", or "12 images of 2 sets".
std::string trained_text(const TrainingData& data) {
  const std::size_t count = data.plan->index().size();
  std::int64_t images = 0;
  bool has_tiles = false;
  for (const ShardSet& set : data.train_shards) {
    images += set.manifest().counts.source_images();
    has_tiles = has_tiles || is_tiled(set.index());
  }
  return cat(has_tiles ? cat(counted(count, "tile"), " of ", counted(images, "image"))
                       : counted(count, "image"),
             data.train_shards.size() > 1 ? cat(" of ", data.train_shards.size(), " sets") : "");
}

void tell_images(const TrainOptions& options, const TrainingData& data, int rank_count) {
  // Untrained layers without weights.
  if (options.from_scratch() && options.norm_kind() == Norm::kFrozen &&
      options.data.synthetic == 0) {
    log_warning(
        "--norm frozen without --init: batch norm stays at its random start and training from "
        "scratch usually diverges; give --init, or use --norm batch");
  }
  if (options.from_scratch() && options.layers_to_train() < 5 && options.data.synthetic == 0) {
    log_warning(
        "--trainable-layers ", options.layers_to_train(),
        " without --init: the other stages of the backbone stay at their random start; give "
        "--init, or train all 5");
  }
  warn_of_no_boxes(options, data);
  // The data, the images of a step and the learning rate.
  const RecipeFacts facts = facts_of_recipe(options.recipe);
  const int reference = facts.reference_images_per_step;
  const std::size_t images = data.plan->index().size();
  const std::size_t drawn = draws_per_epoch(data.plan->index(), options.plan_options());
  log_info("training on ", trained_text(data),
           drawn == images ? "" : cat(", ", drawn, " per epoch with the repeated ones"),
           data.train->ignored_boxes == 0
               ? ""
               : cat(" (boxes without an area, ignored: ", data.train->ignored_boxes, ")"),
           ", ", options.step_images(), " per step; ",
           word_of(kOptimizers, options.optimizer.rule.kind), ", learning rate ",
           rate_text(options.effective_lr()), " (base ", rate_text(options.base_lr()),
           options.optimizer.lr_scaling == LrScaling::kLinear ? cat(" for ", reference, " per step")
                                                              : "",
           ", --lr-scaling ", word_of(kLrScalings, options.optimizer.lr_scaling), ")");
  // Shares that differ leave ranks waiting.
  if (options.step_images() % rank_count != 0) {
    const auto most = largest_share(static_cast<std::size_t>(options.step_images()),
                                    static_cast<std::size_t>(rank_count));
    log_info(options.step_images(), " images per step do not divide evenly among ", rank_count,
             " ranks: ", counted(options.step_images() % rank_count, "rank has", "ranks have"), " ",
             most, ", the others ", most - 1, " and wait (",
             shortest(std::round(1000.0 * options.step_images() /
                                 (static_cast<double>(most) * rank_count)) /
                      10),
             " % of the ranks' time is used)");
  }
  // A published recipe fits one number of images per step.
  const bool is_published = options.recipe != kNoRecipe && !facts.fits_data;
  if (is_published && options.optimizer.lr_scaling == LrScaling::kNone &&
      options.step_images() != reference) {
    log_info("the recipe's learning rate is for ", counted(reference, "image"),
             " per step; --lr-scaling linear adapts it");
  }
}

// Reports, on rank 0, the quarantined images of a set, which count in no metric either.
void tell_quarantined(const char* option, const ShardSet& shards) {
  const std::int64_t count = shards.manifest().counts.quarantined;
  if (count == 0) return;
  log_info("--", option, " ", shards.folder(), ": ", count,
           count == 1 ? " image of the set is" : " images of the set are", " quarantined (",
           kQuarantineFile, ")");
}

// Returns the warnings about the sets that belong before a run: the same data for training and
// validation, whose metric then says nothing, and the notes on each set.
std::vector<std::string> warnings_of(const TrainingData& data) {
  std::vector<std::string> warnings;
  std::set<std::string> seen;
  for (const ShardSet& set : data.train_shards) {
    if (!seen.insert(manifest_hash(set.manifest())).second) {
      warnings.push_back(cat("--train ", set.folder(), ": is there twice: its images count twice"));
    }
    for (const std::string& note : set.manifest().notes) {
      warnings.push_back(cat("--train ", set.folder(), ": ", note));
    }
  }
  if (!data.validation) return warnings;
  const Manifest& manifest = data.validation->manifest();
  const std::string validation = cat("--validation ", data.validation->folder(), ": ");
  std::vector<std::string> notes = set_notes(manifest);
  if (seen.contains(manifest_hash(manifest))) {
    notes.push_back("is trained on, too: its AP says nothing about other images");
  } else {
    const auto shared = validation_notes(data.train_shards, *data.validation);
    notes.insert(notes.end(), shared.begin(), shared.end());
  }
  for (const std::string& note : notes) warnings.push_back(validation + note);
  return warnings;
}

// Throws kUnavailable when ranks differ: --device auto decides on each rank, and a node whose
// driver is broken would use its CPUs.
void check_same_device(const c10::Device& device, Communicator& communicator) {
  const std::int64_t with_gpu = communicator.all_reduce_sum(device.is_cuda() ? 1 : 0);
  if (with_gpu == 0 || with_gpu == communicator.size()) return;
  std::string without;
  const std::string own = device.is_cuda() ? "" : cat(communicator.rank());
  for (const std::string& rank : communicator.gather(own, 0)) {
    if (!rank.empty()) without += cat(without.empty() ? "" : ", ", rank);
  }
  const bool lacks_one = communicator.size() - with_gpu == 1;
  // Rank 0 reports it and ends the job; the others wait for that.
  if (!communicator.is_root()) communicator.barrier();
  throw Error(ErrorKind::kUnavailable,
              cat("--device: ", lacks_one ? "rank " : "ranks ", without, " (of ",
                  communicator.size(), lacks_one ? ") has no GPU" : ") have no GPU"),
              "check nvidia-smi on that node, or give --device cpu");
}

// Returns the value of --train in config.json and checkpoints: a path for one set, else an array.
std::string train_json(const std::vector<std::string>& folders) {
  JsonWriter json;
  if (folders.size() <= 1) return json.value(folders.empty() ? "" : folders.front()).text();
  json.begin_array();
  for (const std::string& folder : folders) json.value(folder);
  return json.end_array().text();
}

// Returns the options to store. A run keeps its global batch, however it was decided.
std::vector<EffectiveOption> effective_options(const Cli& cli, const TrainOptions& options) {
  std::vector<EffectiveOption> result = cli.effective();
  std::erase_if(result, [](const auto& option) { return option.name == "images-per-rank"; });
  for (EffectiveOption& option : result) {
    if (option.name == "images-per-step") option.json = cat(options.step_images());
    if (option.name == "train") option.json = train_json(options.data.train);
  }
  return result;
}

// A command line and the options that it fills.
struct Command {
  Cli& cli;
  TrainOptions& options;
};

// Encodes settings for the other ranks.
std::string to_json(const Cli::Settings& settings) {
  JsonWriter json;
  json.begin_object();
  for (const auto& [name, text] : settings) json.field(name.c_str(), text);
  return json.end_object().text();
}

Cli::Settings settings_from(const std::string& json) {
  const JsonFile file = JsonFile::parse(json, "settings");
  Cli::Settings settings;
  for (const auto& member : file.root().raw().GetObject()) {
    settings.emplace_back(member.name.GetString(), member.value.GetString());
  }
  return settings;
}

// Applies the options that the opened data decide; every rank takes rank 0's decisions. Collective.
void fit_to_data(Job& job, Command& command) {
  std::string settings;
  if (job.is_root()) {
    const RunDefaults defaults = decide_defaults(command.cli, job.options, *job.data);
    settings = to_json(defaults.settings);
    job.notes = defaults.notes;
  }
  command.cli.assign(settings_from(job.communicator.broadcast(settings, 0)));
  job.options = command.options.for_ranks(job.communicator.size());
  job.effective_options = effective_options(command.cli, job.options);
  job.data->make_plan(job.options);
}

// Does the same for --check-args, as far as the data can be read here and now. Returns the
// decisions, and the memory that a single rank needs, a line each.
std::string decided_by_data(Command command) {
  const TrainOptions::Length& length = command.options.length;
  if (!length.images_per_step && length.images_per_rank > 0) return "";  // ranks not known
  std::string text;
  try {
    const auto alone = make_self_communicator();
    follow_init(command.options, command.cli, *alone);
    Job job{
        .options = command.options.for_ranks(1), .effective_options = {}, .communicator = *alone};
    const std::string& resume = job.options.checkpoints.resume;
    if (job.options.resumes_file() && !path_exists(resume)) {
      throw Error(ErrorKind::kNoInput, cat("--resume ", resume, ": no such file"));
    }
    job.data.emplace(job.options);
    fit_to_data(job, command);
    for (const std::string& note : job.notes) text += cat(note, "\n");
    const Outlook there = outlook(job);
    text += there.text;
    if (there.is_finished) return text;
    const std::int64_t steps_per_epoch = job.data->plan->steps_per_epoch();
    text += cat(course_of(job.options, steps_per_epoch), "\n");
    const std::string warning = warning_of_course(job.options, steps_per_epoch);
    if (!warning.empty()) text += cat("warning: ", warning, "\n");
    for (const std::string& known : warnings_of(*job.data)) text += cat("warning: ", known, "\n");
    job.device = choose_device(job.options.compute.device);
    try {
      text += cat(TrainingRun(job).fit_into_memory().text, "\n");
    } catch (const Error& too_little) {
      text += cat(too_little.what(), "; hint: ", too_little.hint(), "\n");
    }
  } catch (const Error& error) {
    // A file or device that another machine may have is not an error: jobs are written on machines
    // without their data.
    if (error.kind() != ErrorKind::kNoInput && error.kind() != ErrorKind::kUnavailable) throw;
    text += cat("not checked further: ", error.what(),
                error.hint().empty() ? "" : cat("; hint: ", error.hint()), "\n");
  }
  return text;
}

// Writes, on rank 0, a page with the samples to train on. A run in the folder stays as it is.
int preview(Command& command, Communicator& communicator) {
  Job job{.options = command.options.for_ranks(communicator.size()),
          .effective_options = {},
          .communicator = communicator};
  const TrainOptions& options = job.options;
  // An unusable output or data set ends the job before anything is drawn.
  root_first(communicator, [&] {
    if (communicator.is_root()) {
      check_may_replace(cat(options.output, "/", kPreviewFile), kPreviewTitle, "--output");
    }
    job.data.emplace(options);
  });
  fit_to_data(job, command);
  root_first(communicator, [&] {
    if (!communicator.is_root()) return;
    const std::string path = cat(options.output, "/", kPreviewFile);
    const TrainingData& data = *job.data;
    for (const std::string& note : job.notes) log_info(note);
    const ModelConfig model = options.model_config(data.train->class_count());
    const bool by_iou = options.loss.assigner == Assigner::kIou;
    const std::string page = render_preview(
        {.train = *data.train,
         .folders = options.data.train,
         .image_count = options.monitoring.preview,
         .total_steps = options.total_steps(data.plan->steps_per_epoch()),
         .plan = *data.plan,
         .augment = word_of(kAugments, options.augment_set()),
         .normalisation = model.normalisation(),
         .anchors = model.anchors(),
         .foreground_iou = by_iou ? std::optional(options.loss.match.foreground_iou) : std::nullopt,
         .threads = options.data.decode_threads,
         .all_options = job.effective_options});
    make_folder(options.output);
    write_file_atomically(path, page);
    std::cout << "preview: " << path << '\n';
  });
  return 0;
}

// Checks the options against the job's ranks, opens device, data and the run's folder, with rank 0
// first.
void open(Job& job, Command& command) {
  Communicator& communicator = job.communicator;
  const TrainOptions& options = job.options;
  const std::vector<RankGpus> gpus = gpus_of_ranks(communicator, visible_gpus());
  root_first(communicator, [&] {
    check_rank_count(options.distribution.expect_ranks, communicator);
    check_share(options, communicator.size());
    job.device = choose_device(options.compute.device);
    if (job.device.is_cuda()) {
      job.device.set_index(static_cast<c10::DeviceIndex>(gpu_of_rank(gpus, communicator.rank())));
    }
    job.data.emplace(options);
  });
  fit_to_data(job, command);
  root_first(communicator, [&] {
    if (job.is_root() && options.writes()) open_run(job);
  });
  check_same_device(job.device, communicator);
}

// Sets the weights from a checkpoint of this run, or from other weights; otherwise they stay as
// drawn by the seed.
void start_weights(TrainingRun& run, Job& job) {
  std::optional<Found>& found = job.found;
  if (job.communicator.all_reduce_max(found ? 1 : 0) != 0) {
    if (found) log_info("continuing from ", found->path);
    run.resume(found ? found->checkpoint : Checkpoint{}, found ? found->path : "");
    found.reset();
  } else if (!job.options.from_scratch()) {
    // A run's folder stands for its best checkpoint, also in a speed test, which opens no run.
    const std::string init =
        job.is_root() ? resolve_checkpoint(job.options.model.init) : job.options.model.init;
    run.initialise_from(job.is_root() ? load_checkpoint(init) : Checkpoint{}, init);
  }
}

// Prints the length of the run and its learning-rate schedule, except in a speed test, which learns
// nothing.
void tell_course(const Job& job) {
  if (job.options.data.synthetic > 0) return;
  const std::int64_t steps_per_epoch = job.data->plan->steps_per_epoch();
  for (const std::string& note : job.notes) log_info(note);
  log_info(course_of(job.options, steps_per_epoch));
  const std::string warning = warning_of_course(job.options, steps_per_epoch);
  if (!warning.empty()) log_warning(warning);
}

// Prints the facts and warnings that a user should see before the first step.
void tell_start(const Job& job) {
  const std::string map = device_map(job.communicator, job.device);
  if (!job.is_root()) return;
  log_info(map);
  tell_images(job.options, *job.data, job.communicator.size());
  tell_course(job);
  warn_of_slow_precision(job.options.compute.precision, job.device, /*trains=*/true);
  for (const ShardSet& set : job.data->train_shards) tell_quarantined("train", set);
  if (job.data->validation) {
    tell_quarantined("validation", *job.data->validation);
    const std::string left_out = left_out_tiles_text(*job.data->validation);
    if (!left_out.empty()) log_warning("--validation ", left_out);
  }
  for (const std::string& warning : warnings_of(*job.data)) log_warning(warning);
}

void tell_memory(const MemoryPlan& plan, const Job& job) {
  if (!job.is_root() || plan.text.empty()) return;
  if (plan.is_tight) {
    log_warning(plan.text);
  } else {
    log_info(plan.text);
  }
}

void stage_shards(Job& job, const TrainingRun& run) {
  StageOptions stage = job.options.data.stage;
  stage.announces = job.is_root();
  std::size_t begin = 0;  // first of the set's records in the plan's index
  for (ShardSet& set : job.data->train_shards) {
    const RecordRange records = {.begin = begin, .end = begin + set.index().size()};
    set.stage_ahead([&] { return shards_ahead(run.loading(), records); }, stage);
    begin = records.end;
  }
}

void tell_skipped(const TrainingRun& run) {
  constexpr std::int64_t kMany = 10;  // fewer than one step in ten belong to the start
  const std::int64_t skipped = run.replica.skipped_updates(), all = run.state.step();
  if (skipped == 0) return;
  const std::string text = cat("the gradient overflowed fp16 in ", skipped, " of ",
                               counted(all, "step"), ", which made no update");
  if (kMany * skipped > all) {
    log_warning(text, "; where there are so many, --precision bf16 or fp32 learns more");
  } else {
    log_info(text);
  }
}

// Prints the results of a finished run on rank 0. Collective.
void tell_end(const Job& job, const TrainingRun& run) {
  const std::string rates =
      job.options.data.synthetic > 0 ? run.monitor.throughput().summary(job.communicator) : "";
  if (!job.is_root()) return;
  std::cout << rates;
  tell_skipped(run);
  if (job.dir) std::cout << "done; report: " << job.dir->report_path() << '\n';
}

int train(Command& command, Communicator& communicator) {
  Job job{.options = command.options.for_ranks(communicator.size()),
          .effective_options = {},
          .communicator = communicator};
  open(job, command);
  const TrainOptions& options = job.options;
  // Settings of this process.
  set_tf32(false);  // the products of training have their own setting, see replica.cpp
  at::set_num_threads(threads_of_rank(options.compute.threads, communicator));
  // A finished run has nothing left to do.
  if (communicator.all_reduce_max(is_finished(job) ? 1 : 0) != 0) {
    if (job.is_root()) {
      std::cout << options.output << ": already finished; report: " << job.dir->report_path()
                << '\n';
    }
    return 0;
  }
  if (job.device.is_cuda()) {
    replace_wrong_kernels(job.device, type_of(options.compute.precision), communicator);
  }
  if (job.is_root() && !options.monitoring.tensorboard.empty()) {
    make_folder(options.monitoring.tensorboard, "--tensorboard");
  }
  TrainingRun run(job);
  Trainer trainer(run);
  start_weights(run, job);
  tell_start(job);
  tell_memory(run.fit_into_memory(), job);
  stage_shards(job, run);
  // From here on a stop signal ends the run after the step in progress.
  const char* const stopping = options.writes() ? "; stopping after this step; saving a checkpoint"
                                                : "; stopping after this step";
  install_stop_signals({.asked = job.is_root() && log_level() <= LogLevel::kInfo ? stopping : ""});
  const int code = trainer.run();
  if (code == 0) tell_end(job, run);
  return code;
}

}  // namespace

int retina_train(int argc, const char* const* argv) {
  register_torch_versions();
  TrainOptions options;
  Cli cli("retina-train", kUsage, kSummary);
  declare_options(cli, options);
  cli.validate([&options](const Cli&) { check_keeps_over_restarts(options); });
  Command command{.cli = cli, .options = options};
  cli.report_checked([&command] { return launcher_rank() > 0 ? "" : decided_by_data(command); });
  return run_rank_program(
      "retina-train", cli, argc, argv,
      [&](Communicator& communicator) {
        // Before there is anything to save, a stop signal ends the program at once.
        install_stop_signals({.limit_s = 0,
                              .ended = communicator.is_root()
                                           ? " before the first step; run the same command again"
                                           : ""});
        follow_init(options, cli, communicator);
        return options.monitoring.preview > 0 ? preview(command, communicator)
                                              : train(command, communicator);
      },
      options.distribution.watch);
}

}  // namespace retina
