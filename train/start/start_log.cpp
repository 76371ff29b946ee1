#include "train/start/start_log.h"

#include <set>

#include "shared/base/host.h"
#include "shared/base/log.h"
#include "shared/data/evaluation_plan.h"
#include "shared/model/autocast.h"
#include "shared/model/device.h"
#include "shared/shard/set_notes.h"
#include "train/start/recipes.h"

namespace retina {
namespace {

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

void print_images(const TrainOptions& options, const TrainingData& data) {
  const bool is_frozen = options.norm_kind() == Norm::kFrozen;
  if (options.from_scratch() && options.data.synthetic == 0 &&
      (is_frozen || options.layers_to_train() < 5)) {
    log_warning(
        is_frozen ? "--norm frozen" : cat("--trainable-layers ", options.layers_to_train()),
        " without --init: what does not learn stays at its random start; give --init, or let "
        "all of it learn with --norm batch --trainable-layers 5");
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
           ", scaling ", word_of(kLrScalings, options.optimizer.lr_scaling), ")");
  // A published recipe fits one number of images per step.
  const bool is_published = options.recipe != kNoRecipe && !facts.fits_data;
  if (is_published && options.optimizer.lr_scaling == LrScaling::kNone &&
      options.step_images() != reference) {
    log_info("the recipe's learning rate is for ", counted(reference, "image"),
             " per step; --lr scaling=linear adapts it");
  }
}

// Reports, on rank 0, the quarantined images of a set, which count in no metric either.
void print_quarantined(const char* option, const ShardSet& shards) {
  const std::int64_t count = shards.manifest().counts.quarantined;
  if (count == 0) return;
  log_info("--", option, " ", shards.folder(), ": ", count,
           count == 1 ? " image of the set is" : " images of the set are", " quarantined (",
           kQuarantineFile, ")");
}

// Prints the length of the run and its learning-rate schedule, except in a speed test, which learns
// nothing.
void print_schedule(const Job& job) {
  if (job.options.data.synthetic > 0) return;
  const std::int64_t steps_per_epoch = job.data->plan->steps_per_epoch();
  for (const std::string& note : job.notes) log_info(note);
  log_info(length_text(job.options, steps_per_epoch));
  const std::string warning = warmup_warning(job.options, steps_per_epoch);
  if (!warning.empty()) log_warning(warning);
}

}  // namespace

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

void print_start(const Job& job) {
  const std::string map = device_map(job.communicator, job.device);
  if (!job.is_root()) return;
  log_info(map);
  print_images(job.options, *job.data);
  print_schedule(job);
  warn_of_slow_precision(job.options.compute.precision, job.device, /*trains=*/true);
  for (const ShardSet& set : job.data->train_shards) print_quarantined("train", set);
  if (job.data->validation) {
    print_quarantined("validation", *job.data->validation);
    const std::string left_out = left_out_tiles_text(*job.data->validation);
    if (!left_out.empty()) log_warning("--validation ", left_out);
  }
  for (const std::string& warning : warnings_of(*job.data)) log_warning(warning);
}

}  // namespace retina
