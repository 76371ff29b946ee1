#include "train/start/job.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "shared/anchor/anchor_fit.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/base/json.h"
#include "shared/checkpoint/run_folder.h"
#include "shared/checkpoint/sealed_file.h"
#include "shared/job/rank_program.h"
#include "train/run/initial_weights.h"
#include "train/run/run_state.h"
#include "train/start/fit_time.h"
#include "train/start/initial_model.h"
#include "train/start/recipes.h"

namespace retina {
namespace {

// Resolves --init to a file, the best checkpoint for a run's folder, and stores its fingerprint.
void resolve_init(TrainOptions& options, RunConfig& config) {
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

// Throws unless --resume and --overwrite make sense in this folder.
void check_start_files(const RunDir& dir, const TrainOptions& options) {
  const std::string& resume = options.checkpoints.resume;
  if (options.resumes_file() && is_folder(resume)) {
    throw Error(ErrorKind::kData, cat("--resume ", resume, ": is a folder (want a checkpoint)"),
                "a run continues where --output names its folder, without --resume; --init takes "
                "the best weights of a run's folder");
  }
  if (!options.checkpoints.overwrite) return;
  if (options.resumes_file()) check_keeps(dir, {.option = "--resume", .file = resume});
  if (!options.from_scratch()) check_keeps(dir, {.option = "--init", .file = options.model.init});
}

// Finds the newest checkpoint of the run in the folder, or the file that --resume names, if any.
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
  if (is_folder(init)) resolve_init(job.options, config);
  check_initial_weights(init, job.options.model_config(job.data->train->class_count()));
}

bool may_continue(const TrainOptions& options) {
  return options.may_resume() && !options.checkpoints.overwrite;
}

// Returns the options of the run that continues; nothing when a run begins. Errors in its files are
// reported where they are opened, here and in the next function.
std::optional<OptionTexts> options_before(const TrainOptions& options) try {
  if (!may_continue(options)) return std::nullopt;
  if (options.writes()) {
    if (std::optional<OptionTexts> stored = RunDir::options_of(options.output)) return stored;
  }
  if (!options.resumes_file()) return std::nullopt;
  const std::string& file = options.checkpoints.resume;
  const JsonFile config = JsonFile::parse(read_checkpoint_header(file).config_json, file);
  return option_texts(config.root().at("train"));
} catch (const Error&) {
  return std::nullopt;
}

bool starts_from_detector(const TrainOptions& options) try {
  if (options.from_scratch()) return false;
  const std::string& init = options.model.init;
  const std::string config =
      is_folder(init) ? config_of_run(init) : read_checkpoint_header(init).config_json;
  return initial_model_of(config, init).gives_all(Task::kDetection);
} catch (const Error&) {
  return false;
}

// Returns the value that `share` of the values do not exceed.
int quantile(std::vector<int>& values, double share) {
  const auto place = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[static_cast<std::size_t>(place)];
}

constexpr double kManySmall = 0.1;  // share of the boxes that makes a note

// Returns the trainable boxes as the network sees them, by the sets' histograms.
std::vector<BoxSize> box_sizes(const TrainOptions& options, const TrainingData& data) {
  constexpr int kLongerPx = 1 << 20;  // large enough that rounding does not matter
  const std::vector<std::int64_t> sides = options.drawn_sides();
  FrameRule rule = options.model_config(1).frame();
  if (!sides.empty()) rule.min_side_px = static_cast<int>(sides[sides.size() / 2]);
  std::vector<BoxSize> boxes;
  for (const ShardSet& set : data.train_shards) {
    for (const auto& [bin, count] : set.manifest().box_sizes) {
      const double shorter = kLongerPx * ratio_of(-std::abs(bin.aspect));
      const int shorter_px = std::max(1, static_cast<int>(shorter));
      const ImageSize from =
          bin.aspect < 0 ? ImageSize{shorter_px, kLongerPx} : ImageSize{kLongerPx, shorter_px};
      const ImageSize to = framed_size(from, rule);
      const auto side = [&](int share, int to_px, int from_px) {
        return static_cast<float>(ratio_of(share) * shorter * to_px / from_px);
      };
      boxes.push_back({.width_px = side(bin.width, to.width, from.width),
                       .height_px = side(bin.height, to.height, from.height),
                       .count = count});
    }
  }
  return boxes;
}

// Decides on the anchors that fit the boxes best. Returns a note.
std::string fit_anchors(Cli& cli, TrainOptions& options, const std::vector<BoxSize>& boxes) {
  const AnchorProposal proposal = propose_anchors(boxes, 1);
  cli.decide(options.model.anchor_sizes, proposal.sizes);
  const auto small = static_cast<double>(proposal.uncovered.small) /
                     static_cast<double>(std::max(count_boxes(boxes), std::int64_t{1}));
  return cat("--anchor-sizes ", anchor_sizes_text(proposal.sizes),
             ", chosen because they fit the boxes best",
             small < kManySmall ? ""
                                : cat("; ", std::lround(100 * small),
                                      " % of these are smaller than any anchor covers, and a "
                                      "larger --min-side makes them larger"));
}

// Returns a note on boxes that lie between the centres of P3's cells, which --assigner atss gives
// no anchor; "" when they are few.
std::string about_small_boxes(const std::vector<BoxSize>& boxes) {
  constexpr float kFinestStridePx = 8;
  std::int64_t small = 0;
  for (const BoxSize& box : boxes) {
    if (std::min(box.width_px, box.height_px) < kFinestStridePx) small += box.count;
  }
  const std::int64_t all = count_boxes(boxes);
  if (100 * small < all || small == 0) return "";
  return cat(
      100 * small / all,
      " % of the boxes are narrower than 8 px at this image size, and --assigner atss leaves most "
      "of them without an anchor; a larger --min-side, or --assigner iou, has them learned");
}

// Checks that the job may start in `dir`, and finds what it starts from. Changes no file.
void check_start(Job& job, RunConfig& config) {
  const TrainOptions& options = job.options;
  job.dir->check_own();
  check_start_files(*job.dir, options);
  find_checkpoint(job, config);
  if (job.found) {
    check_found(job, config);
  } else if (!options.from_scratch()) {  // a run that continues no longer needs these weights
    check_init(job, config);
  }
}

// Opens a folder that cannot be written. Returns false where its run has something left to write.
bool open_finished_run(Job& job, RunConfig& config) {
  job.dir = std::make_unique<RunDir>(job.options.output, RunDir::Access::kRead);
  if (!job.dir->has_run()) return false;
  check_start(job, config);
  return !finished(job).empty();
}

// Returns the part of the job that the run's folder keeps. An --init that names a run's folder
// becomes the file of its best checkpoint.
RunConfig make_config(Job& job) {
  TrainOptions& options = job.options;
  const std::string& init = options.model.init;
  RunConfig config{
      .options = job.effective_options,
      .train_fingerprint = job.data->train->fingerprint,
      .init_none = init == "none",
      .validation_fingerprint = job.data->validation_fingerprint,
      .effective_lr = options.effective_lr(),
      .schedule = options.adaptive_schedule(job.data->plan->steps_per_epoch()).schedule};
  // A run's folder may have another best checkpoint by the time that this run continues.
  const std::optional<OptionTexts> before = RunDir::options_of(options.output);
  const bool is_known_folder = is_folder(init) && !options.checkpoints.overwrite && before &&
                               before->contains("init") && before->at("init") == init;
  if (!options.from_scratch() && path_exists(init) && !is_known_folder)
    resolve_init(options, config);
  return config;
}

}  // namespace

InputSides own_sides(const TrainOptions& options, const ImageIndex& index) {
  constexpr double kNearlyAll = .98;
  const InputSides most = default_sides(options.task, options.model.backbone);
  const int widest = options.data.max_side_px.value_or(most.max_px);
  std::vector<int> shorter, longer;
  for (const IndexEntry& image : index) shorter.push_back(std::min(image.width, image.height));
  const int least_px = options.least_side();
  const int min_px = std::clamp(quantile(shorter, .5), least_px, std::min(most.min_px, widest));
  for (const IndexEntry& image : index) {
    const auto [low, high] = std::minmax(image.width, image.height);
    longer.push_back(static_cast<int>((std::int64_t{high} * min_px + low - 1) / low));
  }
  const int max_px = options.data.max_side_px.value_or(
      std::clamp(quantile(longer, kNearlyAll), min_px, most.max_px));
  return {.min_px = min_px, .max_px = max_px};
}

std::string finished(const Job& job) {
  // A job that was killed between its last checkpoint and its report must still write the report.
  if (!job.found || !path_exists(job.dir->report_path())) return "";
  const RunState state = RunState::parse(job.found->checkpoint.trainer_json, job.found->path);
  if (!state.epoch_closed) return "";
  const std::int64_t steps_per_epoch = job.data->plan->steps_per_epoch();
  if (state.adaptive_schedule.ended_early) {
    return "--early-stop has ended it, and --init with another --output goes on from its weights";
  }
  if (state.step >= job.options.total_steps(steps_per_epoch)) {
    return cat(!job.options.length.time.empty() ? "a longer --for, or more --steps, continues it"
               : job.options.length.steps       ? "more --steps continue it"
                                                : "more --epochs continue it",
               ", another --output begins a longer one, with --init from its weights");
  }
  AdaptiveSchedule schedule(job.options.adaptive_schedule(steps_per_epoch));
  schedule.restore(state.adaptive_schedule, state.ap);
  return schedule.ended_early() ? "a higher --stop-at-ap continues it" : "";
}

// Passes over the images from which on small changes of them find more: docs/measurements.md.
constexpr std::int64_t kLearnedByHeart = 20;

std::vector<std::string> decide_defaults(Cli& cli, TrainOptions& options, Job& job) {
  const TrainingData& data = *job.data;
  const ImageIndex& index = data.source->index();
  RunStart start{.image_count = static_cast<std::int64_t>(index.size()),
                 .before = options_before(options)};
  const auto has_boxes = [](const IndexEntry& entry) { return entry.trainable_count > 0; };
  start.has_tiles = is_tiled(index);
  if (start.has_tiles) {  // the others mostly show water or fields and teach little
    start.image_count = std::count_if(index.begin(), index.end(), has_boxes);
  }
  start.has_detector = !start.before && starts_from_detector(options);
  std::vector<std::string> notes;
  const auto add = [&](const std::string& note) {
    if (!note.empty()) notes.push_back(note);
  };
  TimeFit time{cli, options, job, start};
  add(time.choose_size());
  const TrainingPlan plan(index, options.for_ranks(job.communicator.size()).plan_options(),
                          options.length.steps_per_epoch);
  start.steps_per_epoch = plan.steps_per_epoch();
  for (const std::string& note : decide_run(cli, options, start)) add(note);
  const auto is_kept = [&](auto& target) {
    return start.before && cli.decide_as_before(*start.before, target);
  };
  const char* const images = start.has_tiles ? "tiles" : "images";

  // The image size comes first: the anchors depend on it.
  if (options.wants_own_sides()) {
    cli.reopen(options.data.min_sides_px);
    if (is_kept(options.data.min_sides_px)) {
      is_kept(options.data.max_side_px);
    } else {
      const InputSides own = own_sides(options, index);
      cli.decide(options.data.min_sides_px, std::vector<std::int64_t>{own.min_px});
      cli.decide(options.data.max_side_px, own.max_px);
      notes.push_back(cat("--min-side ", own.min_px, " --max-side ", own.max_px,
                          ", chosen because half of the ", images, " are no larger"));
    }
  }

  if (!options.model.anchor_sizes) {
    cli.reopen(options.model.anchor_sizes);
    if (!is_kept(options.model.anchor_sizes)) {
      notes.push_back(fit_anchors(cli, options, box_sizes(options, data)));
    }
  }
  if (options.loss.assigner == Assigner::kAtss) add(about_small_boxes(box_sizes(options, data)));
  add(time.choose_precision());
  add(time.choose_length(plan));
  auto& augment = options.data.augment.items;
  if (options.recipe == kSmallRecipe && !cli.given(augment)) {
    const std::int64_t seen = options.total_steps(start.steps_per_epoch) / start.steps_per_epoch;
    const bool is_light =
        start.before ? cli.stored(augment, *start.before) == "light" : seen >= kLearnedByHeart;
    if (is_light) cli.decide(augment, std::vector<std::string>{"light"});
    if (is_light && !start.before) {
      add(cat("--augment light, chosen because each image is seen ", seen, " times"));
    }
  }
  return notes;
}

void open_run(Job& job) {
  const TrainOptions& options = job.options;
  RunConfig& config = job.config = make_config(job);
  const bool is_new = !path_exists(options.output);
  try {
    job.dir = std::make_unique<RunDir>(options.output);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCannotCreate || !may_continue(options)) throw;
    if (!open_finished_run(job, config)) throw;
    return;
  }
  try {
    check_start(job, config);
  } catch (...) {
    if (is_new) job.dir->remove_if_unused();
    throw;
  }
  if (options.checkpoints.overwrite) job.dir->clear();
  job.dir->remove_leftovers();
  if (finished(job).empty()) job.dir->write_config(config);  // the options of what it does
  job.dir->write_index();
}

std::vector<std::string> with_drops_made(std::vector<std::string> drop_at,
                                         const std::vector<std::int64_t>& drop_steps,
                                         std::int64_t step) {
  for (std::size_t i = 0; i < drop_steps.size() && drop_at.size() == drop_steps.size(); ++i) {
    if (drop_steps[i] < step) drop_at[i] = cat(drop_steps[i], "steps");
  }
  return drop_at;
}

void change_steps(Job& job, std::int64_t steps, std::int64_t step) {
  const auto before = job.options.adaptive_schedule(job.data->plan->steps_per_epoch()).schedule;
  job.options.schedule.drop_at = job.command->options.schedule.drop_at =
      with_drops_made(job.options.schedule.drop_at, before.drop_steps, step);
  job.options.length.steps = job.command->options.length.steps = steps;
  job.effective_options = job.command->cli.effective();
  if (!job.dir) return;
  job.config.options = job.effective_options;
  job.config.schedule = job.options.adaptive_schedule(job.data->plan->steps_per_epoch()).schedule;
  job.dir->write_config(job.config);
}

ExistingRun existing_run(Job& job) {
  const TrainOptions& options = job.options;
  RunConfig config = make_config(job);
  if (!options.writes()) {
    if (!options.from_scratch()) check_init(job, config);
    return {};
  }
  // The same checks as in open_run(), on a folder that is only read.
  check_can_be_folder(options.output);
  job.dir = std::make_unique<RunDir>(options.output, RunDir::Access::kRead);
  check_start(job, config);
  const bool has_run = job.dir->has_run();
  ExistingRun result;
  if (has_run && options.checkpoints.overwrite) {
    result.text = cat(options.output, ": has a run, which --overwrite removes\n");
  } else if (const std::string what_continues = finished(job); !what_continues.empty()) {
    result = {
        cat(options.output, ": already finished; ", what_continues, ", --overwrite trains again\n"),
        true};
  } else if (job.found) {
    const RunState state = RunState::parse(job.found->checkpoint.trainer_json, job.found->path);
    const auto schedule = [&](std::int64_t total) {
      return options.schedule_of(
          {.total_steps = total, .steps_per_epoch = job.data->plan->steps_per_epoch()});
    };
    const std::int64_t total = options.total_steps(job.data->plan->steps_per_epoch());
    const std::string change =
        length_change_text(schedule(state.facts.total_steps), schedule(total), state.step);
    result.text = cat(job.found->path, ": continues after step ", state.step, "\n",
                      change.empty() ? "" : cat(change, "\n"));
  } else if (has_run) {
    result.text = cat(options.output, ": has a run without a checkpoint, which begins again\n");
  }
  job.dir.reset();
  job.found.reset();
  return result;
}

DecodeThreads decode_threads(const Job& job) {
  return choose_decode_threads(job.options.data.decode_threads,
                               threads_of_rank(0, job.communicator), job.device.is_cuda());
}

}  // namespace retina
