#include "train/start/training_data.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/printable.h"
#include "shared/data/training_sources.h"
#include "train/run/run_config.h"

namespace retina {
namespace {

std::vector<std::string> class_names(const ShardSet& set) {
  std::vector<std::string> names;
  for (const Category& one : set.manifest().categories) names.push_back(one.name);
  return names;
}

// Throws, naming a class that only one of the sets has, or else the first at another place.
[[noreturn]] void refuse_classes(const ShardSet& set, const ShardSet& wanted) {
  const std::vector<std::string> got = class_names(set), want = class_names(wanted);
  const std::multiset<std::string> all_got(got.begin(), got.end()),
      all_want(want.begin(), want.end());
  std::vector<std::string> extra, missing;
  std::set_difference(all_got.begin(), all_got.end(), all_want.begin(), all_want.end(),
                      std::back_inserter(extra));
  std::set_difference(all_want.begin(), all_want.end(), all_got.begin(), all_got.end(),
                      std::back_inserter(missing));
  if (extra.empty() && missing.empty()) {
    const auto [own, other] = std::mismatch(got.begin(), got.end(), want.begin());
    extra = {*own};
    missing = {*other};
  }
  const auto first = [](const std::vector<std::string>& names) {
    return names.empty() ? "nothing" : cat('"', escaped(names.front()), '"');
  };
  throw Error(ErrorKind::kConfig,
              cat(set.folder(), ": classes differ from those of ", wanted.folder(), " (got ",
                  first(extra), ", want ", first(missing), ")"),
              "give all sets the same class names, in the same order, and pack them again");
}

// Returns the labels of `set`'s classes among those of `first`, by name; empty where they are the
// same. Throws kConfig where a class is missing on either side, or names that occur twice have
// another order.
std::vector<int> labels_by_name(const ShardSet& set, const ShardSet& first) {
  const std::vector<std::string> own = class_names(set), wanted = class_names(first);
  if (own == wanted) return {};
  std::vector<int> labels;
  for (const std::string& name : own) {
    const auto found = std::find(wanted.begin(), wanted.end(), name);
    if (found == wanted.end()) refuse_classes(set, first);
    labels.push_back(static_cast<int>(found - wanted.begin()));
  }
  const bool are_all = std::set<int>(labels.begin(), labels.end()).size() == wanted.size();
  if (!are_all || own.size() != wanted.size()) refuse_classes(set, first);
  return labels;
}

// Returns COCO's or ImageNet's number of classes.
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

std::vector<ShardSet> open_sets(const TrainOptions& options) {
  std::vector<ShardSet> sets;
  for (const std::string& folder : options.data.train) {
    const ShardSet& set =
        sets.emplace_back(folder, options.scratch, options.data.stage.limit_bytes);
    check_task(set.manifest(), options.task, folder);
    if (is_tiled(set.index()) != is_tiled(sets.front().index())) {
      throw Error(ErrorKind::kConfig,
                  cat("--train: ", folder, " and ", sets.front().folder(),
                      ": the one holds tiles, the other whole images"),
                  "pack both with the same --tile, or both without");
    }
  }
  return sets;
}

// Returns the sets' records, one set after the other, with the labels of the first.
std::unique_ptr<SampleSource> make_source(const std::vector<ShardSet>& sets,
                                          const Normalisation& normalisation,
                                          ShardSource::Crowds crowds) {
  if (sets.size() == 1) return std::make_unique<ShardSource>(sets.front(), normalisation, crowds);
  std::vector<SourcePart> parts;
  for (const ShardSet& set : sets) {
    parts.push_back({.source = std::make_unique<ShardSource>(set, normalisation, crowds),
                     .labels = labels_by_name(set, sets.front())});
  }
  return std::make_unique<ConcatenatedSource>(std::move(parts));
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
    train_shards = open_sets(options);
    const Manifest& first = train_shards.front().manifest();
    source = std::make_unique<ReplacingSource>(make_source(
        train_shards, options.model_config(first.class_count()).normalisation(),
        data.train_on_crowds ? ShardSource::Crowds::kBoxes : ShardSource::Crowds::kLeftOut));
    train.emplace(TrainingSet{.source = *source, .categories = first.categories});
    // The sets are trained on as one, so their fingerprints are joined.
    for (const ShardSet& set : train_shards) {
      const Manifest& manifest = set.manifest();
      train->ignored_boxes += manifest.counts.degenerate;
      train->fingerprint += cat(train->fingerprint.empty() ? "" : "+", manifest_hash(manifest));
    }
    const bool has_box =
        std::any_of(train_shards.begin(), train_shards.end(),
                    [](const ShardSet& set) { return set.manifest().counts.trainable > 0; });
    if (!options.classifies() && !has_box) {
      throw Error(ErrorKind::kData, cat(data.train.front(), ": no image has a box to train on"),
                  "label objects, then pack the set again");
    }
  }
  // The validation set must fit the task, the classes and the options that judge by its metric.
  if (!options.validation.shards.empty()) {
    validation.emplace(options.validation.shards, options.scratch, options.data.stage.limit_bytes);
    check_task(validation->manifest(), options.task, options.validation.shards);
    if (class_names(*validation) != class_names(train_shards.front())) {
      refuse_classes(*validation, train_shards.front());
    }
    if (!options.judge().empty() && !options.classifies() &&
        validation->manifest().counts.trainable == 0) {
      throw Error(
          ErrorKind::kConfig,
          cat(options.judge(), ": no image of ", validation->folder(), " has a box to judge by"),
          "give a --validation set with boxes, or leave the option out");
    }
    validation_fingerprint =
        validation_identity(manifest_hash(validation->manifest()), options.validation.images,
                            validation->index().size());
  }
}

void TrainingData::make_plan(const TrainOptions& options) {
  plan.emplace(source->index(), options.plan_options(), options.length.steps_per_epoch);
}

std::int64_t TrainingData::validated_images(const TrainOptions& options) const {
  const std::int64_t all = validation ? std::ssize(validation->index()) : 0;
  return options.validation.images > 0 ? std::min(all, options.validation.images) : all;
}

}  // namespace retina
