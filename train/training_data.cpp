#include "train/training_data.h"

#include <algorithm>
#include <map>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/printable.h"
#include "shared/data/training_sources.h"
#include "train/run/run_config.h"

namespace retina {
namespace {

bool has_same_classes(const ShardSet& a, const ShardSet& b) {
  const Categories &of_a = a.manifest().categories, &of_b = b.manifest().categories;
  return std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(),
                    [](const auto& x, const auto& y) { return x.name == y.name; });
}

// Returns a text like "red cells, white cells, ...", with the first few.
std::string names_of(const Categories& classes) {
  constexpr std::size_t kMost = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, classes.size()); ++i) {
    text += cat(i == 0 ? "" : ", ", escaped(classes[i].name));
  }
  return classes.size() > kMost ? cat(text, ", ... (", classes.size(), ")") : text;
}

void check_validation_classes(const ShardSet& train, const ShardSet& validation) {
  if (has_same_classes(train, validation)) return;
  const auto& wanted = train.manifest().categories;
  throw Error(ErrorKind::kConfig,
              cat(validation.folder(), ": classes differ from those of ", train.folder(), " (got ",
                  names_of(validation.manifest().categories), ", want ", names_of(wanted),
                  " in this order)"),
              "pack both sets from annotation files with the same categories");
}

[[noreturn]] void refuse_classes(const ShardSet& set, const std::string& problem) {
  throw Error(ErrorKind::kConfig, cat(set.folder(), ": ", problem),
              "give all --train sets the same class names, and pack them again");
}

// Returns the first label of each name.
std::map<std::string, int> labels_of(const Categories& classes) {
  std::map<std::string, int> labels;
  for (const Category& one : classes) {
    labels.emplace(one.name, static_cast<int>(&one - classes.data()));
  }
  return labels;
}

// Returns the labels of `set`'s classes among those of `first`, by name; empty where they are the
// same. Throws kConfig where a class is missing on either side, or names that occur twice have
// another order.
std::vector<int> labels_by_name(const ShardSet& set, const ShardSet& first) {
  if (has_same_classes(set, first)) return {};
  const Categories &own = set.manifest().categories, &wanted = first.manifest().categories;
  const std::map<std::string, int> own_labels = labels_of(own), wanted_labels = labels_of(wanted);
  const std::string differ = cat("classes differ from those of ", first.folder());
  std::vector<int> labels;
  for (const Category& one : own) {
    const auto found = wanted_labels.find(one.name);
    if (found == wanted_labels.end()) {
      refuse_classes(set, cat(differ, " (got \"", escaped(one.name), "\", which is not there)"));
    }
    labels.push_back(found->second);
  }
  for (const Category& one : wanted) {
    if (own_labels.contains(one.name)) continue;
    refuse_classes(set, cat(differ, " (want \"", escaped(one.name), "\", too)"));
  }
  // Names that occur twice cannot be matched.
  if (own_labels.size() < own.size() || wanted_labels.size() < wanted.size()) {
    refuse_classes(set, cat("classes have another order than those of ", first.folder(),
                            ", and several have one name"));
  }
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
  }
  // The validation set must fit the task, the classes and the options that judge by its metric.
  if (!options.validation.shards.empty()) {
    validation.emplace(options.validation.shards, options.scratch, options.data.stage.limit_bytes);
    check_task(validation->manifest(), options.task, options.validation.shards);
    check_validation_classes(train_shards.front(), *validation);
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

}  // namespace retina
