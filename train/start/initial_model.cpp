#include "train/start/initial_model.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "shared/anchor/anchor_fit.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/log.h"
#include "shared/base/printable.h"
#include "shared/checkpoint/checkpoint.h"
#include "shared/checkpoint/pretrained.h"
#include "shared/checkpoint/run_folder.h"
#include "shared/model/network_shape.h"
#include "train/run/initial_weights.h"
#include "train/start/recipes.h"

namespace retina {

std::string config_of_run(const std::string& folder) {
  std::vector<std::string> names = checkpoint_files(folder);
  std::reverse(names.begin(), names.end());
  for (const std::string& name : names) {
    try {
      return read_checkpoint_header(cat(folder, "/", name)).config_json;
    } catch (const Error&) {
      continue;
    }
  }
  return "";
}

namespace {

// Of what the run continues from; "" where it begins.
std::string config_to_continue(const TrainOptions& options) {
  const TrainOptions::Checkpoints& checkpoints = options.checkpoints;
  if (options.writes() && options.may_resume() && !checkpoints.overwrite) {
    if (std::string config = config_of_run(options.output); !config.empty()) return config;
  }
  const std::string& file = checkpoints.resume;
  const bool is_there = options.resumes_file() && path_exists(file) && !is_folder(file);
  return is_there ? read_checkpoint_header(file).config_json : "";
}

[[noreturn]] void refuse_missing(const TrainOptions& options, const std::string& given) {
  const std::string train = options.data.first_train();
  if (const PretrainedWeights* const weights = find_pretrained(given)) {
    refuse_missing(*weights, {.option = "--init", .near = train});
  }
  // A file of `make weights`, or what the recipe needs.
  const PretrainedWeights* meant = pretrained_of_file(given);
  if (meant == nullptr)
    meant = find_backbone(facts_of_recipe(options.recipe).weights, options.model.backbone);
  throw Error(ErrorKind::kNoInput, cat("--init ", given, ": no such file"),
              meant != nullptr
                  ? cat(fetch_command(*meant, train), ", then --init ", meant->name)
                  : cat("give a run's folder, a checkpoint, or one of ", pretrained_names()));
}

// The config that the model follows; `options.model.init` becomes a path. "" where a run's folder
// has no checkpoint: opening the run reports it. Rank 0.
std::string take_start(TrainOptions& options) {
  std::string& init = options.model.init;
  const std::string given = init;
  const NamedBy by = {.option = "--init", .near = options.data.first_train()};
  const PretrainedWeights* const named = take_name(given, by);
  if (named == nullptr) {
    init = run_folder_of(given);
  } else if (init = locate(*named, by.near); init.empty()) {
    init = fetched_path(*named, by.near);
  }
  std::string config = config_to_continue(options);
  if (!config.empty()) return config;
  if (!path_exists(init)) refuse_missing(options, given);
  if (named == nullptr && is_folder(init)) return config_of_run(init);
  if (named != nullptr) check_import(*named, init, by);
  return read_checkpoint_header(init).config_json;
}

// Sets what is open to what the checkpoint has; what changed by that, as options.
std::string follow(TrainOptions& options, const Cli& cli, const InitialModel& initial) {
  const ModelConfig& theirs = initial.model;
  TrainOptions::Model& mine = options.model;
  if (theirs.backbone == kCifarCnn && !options.classifies()) return "";  // refused, with its reason
  std::string changes;
  const auto take = [&](auto& value, const auto& wanted, const auto& shown) {
    if (value == wanted || cli.is_set(value)) return;
    value = wanted;
    changes += cat(" ", cli.name_of(value), " ", shown);
  };
  take(mine.backbone, theirs.backbone, theirs.backbone);
  take(mine.norm_eps, theirs.norm_eps, shortest(theirs.norm_eps));
  if (options.classifies() || !initial.gives_all(options.task)) return changes;
  take(mine.head_norm, theirs.head_norm, word_of(kHeadNorms, theirs.head_norm));
  if (options.model_config(1).p6_from_c5 != theirs.p6_from_c5) {
    take(mine.p6, theirs.p6_from_c5 ? P6Source::kC5 : P6Source::kP5,
         theirs.p6_from_c5 ? "c5" : "p5");
  }
  take(mine.anchor_sizes, theirs.anchor_sizes, anchor_sizes_text(theirs.anchor_sizes));
  take(mine.anchors_per_location, theirs.anchors_per_location, theirs.anchors_per_location);
  take(mine.fpn_channels, theirs.fpn_channels, theirs.fpn_channels);
  take(mine.keep_ratio, theirs.keep_ratio, theirs.keep_ratio ? "on" : "off");
  take(mine.head_convs, theirs.head_convs, theirs.head_convs);
  // Anchors are in pixels of the resized image, so its size belongs to them; what a published
  // recipe or several --min-side say stays.
  if (facts_of_recipe(options.recipe).fits_data && options.drawn_sides().empty()) {
    if (options.min_side() != theirs.min_side_px) {
      take(options.data.min_sides_px, std::vector<std::int64_t>{theirs.min_side_px},
           theirs.min_side_px);
    }
    if (options.max_side() != theirs.max_side_px) {
      take(options.data.max_side_px, theirs.max_side_px, theirs.max_side_px);
    }
  }
  take(mine.anchor_offset, theirs.anchor_offset, shortest(theirs.anchor_offset));
  return changes;
}

}  // namespace

void follow_init(TrainOptions& options, const Cli& cli, Communicator& communicator) {
  if (options.from_scratch()) return;
  std::string config;
  if (communicator.is_root()) config = take_start(options);
  config = communicator.broadcast(config, 0);
  options.model.init = communicator.broadcast(options.model.init, 0);
  if (config.empty()) return;
  const std::string changes = follow(options, cli, initial_model_of(config, options.model.init));
  if (changes.empty()) return;
  if (communicator.is_root()) log_info("the model follows --init:", changes);
  options.validate();
}

}  // namespace retina
