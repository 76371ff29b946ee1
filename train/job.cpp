#include "train/job.h"

#include <algorithm>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/checkpoint/run_folder.h"
#include "shared/checkpoint/sealed_file.h"
#include "shared/data/replacing_source.h"
#include "shared/job/rank_program.h"
#include "train/recipes.h"
#include "train/run/initial_weights.h"
#include "train/run/run_state.h"

namespace retina {
namespace {

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

// --init as a file and its fingerprint: of a run's folder the best checkpoint.
void take_init(TrainOptions& options, RunConfig& config) {
  options.model.init = resolve_checkpoint(options.model.init);
  config.init_fingerprint = hex64(check_seal(options.model.init, "checkpoint"));
}

void check_found(const Job& job, const RunConfig& config) {
  const TrainOptions& options = job.options;
  check_continues(*job.found, {.config = config,
                               .model = options.model_config(job.data->train->class_count()),
                               .has_weights = !options.from_scratch(),
                               .has_trainable_layers = options.model.trainable_layers.has_value()});
}

// What --resume and --overwrite ask for makes sense in this folder.
void check_start_files(const RunDir& dir, const TrainOptions& options) {
  const std::string& resume = options.checkpoints.resume;
  if (options.resumes_file() && is_folder(resume)) {
    throw Error(ErrorKind::kData, cat("--resume ", resume, ": is a folder (want a checkpoint)"),
                "a run continues where --output names its folder, without --resume; --init takes "
                "the best weights of a run's folder");
  }
  if (!options.checkpoints.overwrite) return;
  if (options.resumes_file()) check_keeps(dir, {.option = "resume", .file = resume});
  if (!options.from_scratch()) check_keeps(dir, {.option = "init", .file = options.model.init});
}

// The newest checkpoint of the run in the folder, or the file that --resume names, or nothing.
void find_checkpoint(Job& job, RunConfig& config) {
  const TrainOptions& options = job.options;
  const std::string& resume = options.checkpoints.resume;
  if (job.dir->has_run() && !options.checkpoints.overwrite) {
    if (!options.may_resume()) {
      throw Error(ErrorKind::kConfig, cat(options.output, ": already holds a run"),
                  "choose another --output, --resume auto, or --overwrite");
    }
    job.dir->check_same_run(config);
    job.found = newest_checkpoint(*job.dir);
    if (job.found && options.resumes_file()) check_asked_for(*job.dir, *job.found, resume);
  }
  if (!job.found && options.resumes_file()) {
    job.found = Found{load_checkpoint(resume), resume};
    config.resume_fingerprint = hex64(read_seal(resume, "checkpoint"));
  }
}

void check_init(Job& job, RunConfig& config) {
  const std::string& init = job.options.model.init;
  if (!path_exists(init)) {
    const std::string hint = backbone_hint(job.options.recipe);
    throw Error(ErrorKind::kNoInput, cat("--init ", init, ": no such file"),
                hint.empty() ? "check the path" : hint);
  }
  if (is_folder(init)) take_init(job.options, config);
  check_initial_weights(init, job.options.model_config(job.data->train->class_count()));
}

// In a folder that cannot be written. False where its run has something left to write.
bool open_finished_run(Job& job, const RunConfig& config) {
  job.dir = std::make_unique<RunDir>(job.options.output, RunDir::Access::kRead);
  if (!job.dir->has_run()) return false;
  job.dir->check_own();
  job.dir->check_same_run(config);
  job.found = newest_checkpoint(*job.dir);
  if (!is_finished(job)) return false;
  if (job.options.resumes_file()) {
    check_asked_for(*job.dir, *job.found, job.options.checkpoints.resume);
  }
  check_found(job, config);
  return true;
}

}  // namespace

TrainingData::TrainingData(const TrainOptions& options) {
  const TrainOptions::Data& data = options.data;
  if (data.synthetic > 0) {
    source = std::make_unique<SyntheticSource>(data.synthetic, synthetic_classes(options.task),
                                               options.seed, options.synthetic_image_size(),
                                               options.task);
    train.emplace(
        TrainingSet{.source = *source,
                    .categories = synthetic_categories(options.task),
                    .fingerprint = cat("synthetic ", data.synthetic, " of ", data.synthetic_size)});
  } else {
    train_shards.emplace(data.train, options.scratch);
    const Manifest& manifest = train_shards->manifest();
    check_task(manifest, options.task, data.train);
    const auto class_count = static_cast<int>(manifest.categories.size());
    if (data.sampler == Sampler::kClassBalanced) {
      check_tells_classes(train_shards->index(), data.train);
    }
    source = std::make_unique<ReplacingSource>(std::make_unique<ShardSource>(
        *train_shards, options.model_config(class_count).normalisation()));
    train.emplace(TrainingSet{.source = *source,
                              .categories = manifest.categories,
                              .ignored_boxes = manifest.counts.degenerate,
                              .fingerprint = manifest_hash(manifest)});
  }
  if (!options.validation.shards.empty()) {
    validation.emplace(options.validation.shards, options.scratch);
    check_task(validation->manifest(), options.task, options.validation.shards);
    check_validation_classes(*train_shards, *validation);
    validation_fingerprint =
        validation_identity(manifest_hash(validation->manifest()), options.validation.images,
                            validation->index().size());
  }
  plan.emplace(source->index(), options.plan_options(), options.length.steps_per_epoch);
}

void open_run(Job& job) {
  TrainOptions& options = job.options;
  const std::string& init = options.model.init;
  const bool overwrites = options.checkpoints.overwrite;
  RunConfig config{.options = job.effective_options,
                   .train_fingerprint = job.data->train->fingerprint,
                   .init_none = init == "none",
                   .validation_fingerprint = job.data->validation_fingerprint,
                   .effective_lr = options.effective_lr()};
  // A run's folder may have another best checkpoint by the time that this run continues.
  const bool is_known_folder =
      is_folder(init) && !overwrites && RunDir::init_of(options.output) == init;
  if (!options.from_scratch() && path_exists(init) && !is_known_folder) take_init(options, config);
  try {
    job.dir = std::make_unique<RunDir>(options.output);
  } catch (const Error& error) {
    const bool may_read = !overwrites && options.may_resume();
    if (error.kind() != ErrorKind::kCannotCreate || !may_read) throw;
    if (!open_finished_run(job, config)) throw;
    return;
  }
  job.dir->check_own();
  check_start_files(*job.dir, options);
  find_checkpoint(job, config);
  if (job.found) {
    check_found(job, config);
  } else if (!options.from_scratch()) {  // a run that continues no longer needs these weights
    check_init(job, config);
  }
  if (overwrites) job.dir->clear();
  job.dir->remove_leftovers();
  job.dir->write_config(config);
}

DecodeThreads decode_threads(const Job& job) {
  return choose_decode_threads(job.options.data.decode_threads,
                               threads_of_rank(0, job.communicator), job.device.is_cuda());
}

bool is_finished(const Job& job) {
  // A job that was killed between its last checkpoint and its report still has to write the report.
  if (!job.found || !path_exists(job.dir->report_path())) return false;
  const RunState state = RunState::parse(job.found->checkpoint.trainer_json, job.found->path);
  const std::int64_t total_steps = job.options.total_steps(job.data->plan->steps_per_epoch());
  return state.epoch_closed && (state.step >= total_steps || state.adaptive_schedule.ended_early);
}

}  // namespace retina
