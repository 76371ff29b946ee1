#include "evaluate/compare/compare.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>
#include <utility>
#include <vector>

#include "evaluate/box_reading.h"
#include "evaluate/compare/classification_comparison.h"
#include "evaluate/compare/comparison.h"
#include "evaluate/evaluation_folder.h"
#include "evaluate/explain/classification_text.h"
#include "evaluate/explain/predictions.h"
#include "evaluate/outcome.h"
#include "evaluate/page/eval_page.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/log.h"
#include "shared/base/url.h"
#include "shared/coco/box_warnings.h"
#include "shared/coco/instances.h"
#include "shared/coco/results.h"
#include "shared/evaluation/score/ground_truth.h"
#include "shared/evaluation/score/metrics_text.h"
#include "shared/shard/shard_set.h"

namespace retina {

namespace {

// One of the two evaluations, as the command line names it.
struct Side {
  std::string name{};
  bool is_folder = false;
  StoredEvaluation stored{};  // for a COCO results JSON: only its path
  std::string hash{};         // hash of the results
  std::vector<Detection> detections{};
};

struct Truth {
  StoredTruth source{};
  Instances instances{};
};

constexpr const char* kGiveTruth = "give --annotations or --data to score both on it";

Side open_side(const std::string& name) {
  Side side{.name = name, .is_folder = is_folder(name)};
  if (side.is_folder) {
    side.stored = read_evaluation(name);
  } else {
    side.stored.results = name;
  }
  return side;
}

std::string truth_text(const StoredTruth& truth) {
  return cat(truth.path, " (hash ", truth.hash,
             truth.max_images > 0 ? cat(", first ", truth.max_images, " images") : std::string(),
             ")");
}

// Returns the value that the folders' evaluations had, if any is a folder; throws kConfig where
// they disagree.
std::optional<std::int64_t> agreed(const std::array<Side, 2>& sides,
                                   std::int64_t StoredTruth::*value, const char* option) {
  std::optional<std::int64_t> result;
  for (const Side& side : sides) {
    if (!side.is_folder) continue;
    const std::int64_t wanted = side.stored.truth.*value;
    if (result && *result != wanted) {
      throw Error(ErrorKind::kConfig,
                  cat(sides[0].name, " and ", sides[1].name, ": not evaluated alike (", option,
                      " was ", *result, " and ", wanted, ")"),
                  cat("evaluate both with the same ", option));
    }
    result = wanted;
  }
  return result;
}

std::int64_t agreed_max_images(const std::array<Side, 2>& sides) {
  return agreed(sides, &StoredTruth::max_images, "--max-images").value_or(0);
}

// Reads a COCO file or shards and fills in `source.hash`.
Truth read_truth(StoredTruth source, const std::string& scratch) {
  Truth truth;
  if (source.is_shards) {
    const ShardSet shards(source.path, scratch);
    source.hash = manifest_hash(shards.manifest());
    source.is_tiled = is_tiled(shards.index());
    truth.instances = ground_truth_of(shards);
  } else {
    source.hash = hex64(xxh3_file(source.path));
    truth.instances = read_instances(source.path);
  }
  keep_first_images(truth.instances, source.max_images);
  truth.source = std::move(source);
  return truth;
}

// Reads the ground truth of --annotations or --data, with a warning where a folder was evaluated on
// another one.
Truth given_truth(const EvalOptions& options, const std::array<Side, 2>& sides) {
  const bool is_shards = !options.data.empty();
  Truth truth = read_truth({.is_shards = is_shards,
                            .path = is_shards ? options.data : options.annotations,
                            .hash = "",
                            .max_images = agreed_max_images(sides)},
                           options.scratch);
  for (const Side& side : sides) {
    const StoredTruth& then = side.stored.truth;
    if (!side.is_folder || then.is_shards != is_shards || then.hash == truth.source.hash) continue;
    log_warning(side.name, ": was evaluated on other ground truth (", truth_text(then),
                "): its numbers here, on ", truth.source.path,
                ", may differ from its metrics.json");
  }
  return truth;
}

// Reads the ground truth that the folders were evaluated on. Throws kUsage, kConfig, kNoInput.
Truth stored_truth(const EvalOptions& options, const std::array<Side, 2>& sides) {
  std::vector<const Side*> folders;
  for (const Side& side : sides) {
    if (side.is_folder) folders.push_back(&side);
  }
  if (folders.empty()) {
    throw Error(ErrorKind::kUsage, "--compare: results files do not say what their ground truth is",
                "give --annotations or --data");
  }
  const StoredTruth& wanted = folders[0]->stored.truth;
  if (folders.size() == 2) {
    const StoredTruth& other = folders[1]->stored.truth;
    agreed_max_images(sides);
    if (wanted.is_shards != other.is_shards || wanted.hash != other.hash) {
      throw Error(ErrorKind::kConfig,
                  cat(folders[0]->name, " and ", folders[1]->name,
                      ": evaluated on different ground truth, ", truth_text(wanted), " and ",
                      truth_text(other)),
                  kGiveTruth);
    }
  }
  // Either folder's path will do: one may be relative to the folder that its evaluation ran in.
  for (const Side* side : folders) {
    const StoredTruth& source = side->stored.truth;
    if (!is_url(source.path) && !path_exists(source.path)) continue;
    Truth truth = read_truth(source, options.scratch);
    if (truth.source.hash == wanted.hash) return truth;
    throw Error(ErrorKind::kConfig,
                cat(side->name, ": its ground truth ", source.path, " has changed since (hash was ",
                    wanted.hash, ", is ", truth.source.hash, ")"),
                kGiveTruth);
  }
  throw Error(ErrorKind::kNoInput,
              cat(folders[0]->name, ": its ground truth ", wanted.path, " is not there"),
              kGiveTruth);
}

void read_detections(Side& side, const Instances& truth) {
  const StoredEvaluation& stored = side.stored;
  if (side.is_folder && !path_exists(stored.results)) {
    throw Error(ErrorKind::kNoInput,
                cat(side.name, ": its results ", stored.results, " are not there"),
                "compare the results file itself, or start where that evaluation ran");
  }
  side.hash = hex64(xxh3_file(stored.results));
  if (!stored.results_hash.empty() && side.hash != stored.results_hash) {
    throw Error(ErrorKind::kConfig,
                cat(side.name, ": its results ", stored.results, " have changed since (hash was ",
                    stored.results_hash, ", is ", side.hash, ")"),
                "evaluate them again, or compare the results file itself");
  }
  side.detections = read_results(stored.results);
  check_file_names(stored.results, file_name_finder(truth));
}

// Throws kConfig where the output would replace one of the compared folders.
void check_output(const EvalOptions& options, const std::array<Side, 2>& sides) {
  for (const Side& side : sides) {
    std::error_code none;
    if (!side.is_folder || !std::filesystem::equivalent(options.output, side.name, none)) continue;
    throw Error(ErrorKind::kConfig, cat("--output ", options.output, ": is one of the two folders"),
                "choose another --output");
  }
}

void check_one_task(const std::array<Side, 2>& sides) {
  const auto task = [&](std::size_t side) {
    return sides[side].stored.is_classification ? "classification" : "detection";
  };
  if (sides[0].stored.is_classification == sides[1].stored.is_classification) return;
  throw Error(ErrorKind::kConfig,
              cat(sides[0].name, " and ", sides[1].name, ": cannot be compared (got ", task(0),
                  " and ", task(1), ", want one task)"),
              "compare two evaluations of detectors or two of classifiers");
}

EvalIdentity comparison_identity(const std::array<Side, 2>& sides, const StoredTruth& truth) {
  return {{EvaluationFolder::kComparedA, quoted(sides[0].hash)},
          {EvaluationFolder::kComparedB, quoted(sides[1].hash)},
          {truth.is_shards ? "data" : "annotations", quoted(truth.hash)},
          {"max-images", cat(truth.max_images)}};
}

// Returns the detection limit that both were scored with, or that --count-best asks for.
std::uint32_t detection_limit_of(const EvalOptions& options, const std::array<Side, 2>& sides,
                                 const StoredTruth& truth) {
  if (options.count_best) return options.detection_limit(false);
  const auto limit = agreed(sides, &StoredTruth::count_best, "--count-best");
  return limit ? static_cast<std::uint32_t>(*limit) : options.detection_limit(truth.is_tiled);
}

// The texts of a comparison: compare.json, the tables for a terminal, notes for the reader.
struct ComparisonTexts {
  std::string json{}, tables{};
  std::vector<std::string> notes{};
};

// A comparison that is about to be made.
struct PlannedComparison {
  EvalIdentity identity{};
  std::vector<std::string> inputs{};  // files that it reads
  std::string truth{};                // path of the ground truth
  const char* metric = "";            // the headline's name
  std::function<ComparisonTexts(const ComparedNames& names)> compare{};
};

// Compares, unless the output folder holds the result already, writes compare.html and compare.json
// and prints the tables. Returns the exit code. Throws kIo, and as EvaluationFolder::begin().
int publish_comparison(const EvalOptions& options, const Cli& cli, const PlannedComparison& plan) {
  EvaluationFolder folder(options.output);
  if (const auto done =
          folder.begin(plan.identity, cli.effective(), options.overwrite, plan.inputs)) {
    const JsonView metric = headline_metric(*done);
    std::cout << folder.path() << ": already compared, " << plan.metric << " "
              << metric_text(metric.at("a").as_double()) << " and "
              << metric_text(metric.at("b").as_double()) << " (--overwrite to do it again)\n";
    return 0;
  }
  const auto page_of = [&](const std::string& side) {
    const std::string page = side + "/report.html";  // a results file has no page
    std::error_code code;
    return path_exists(page) ? std::filesystem::proximate(page, options.output, code).string() : "";
  };
  const auto& [a, b] = options.compare;
  const ComparisonTexts texts = plan.compare(
      {.a = a, .b = b, .truth = plan.truth, .page_a = page_of(a), .page_b = page_of(b)});
  const Page page{.title = "Comparison",
                  .subtitle = cat("A: ", a, " · B: ", b, " · on ", plan.truth),
                  .summary = texts.tables,
                  .data = texts.json,
                  .settings = settings_of(cli.effective()),
                  .notes = texts.notes};
  as_io_error([&] {
    folder.check_present();
    write_file_atomically(folder.compare_page_path(), render_page(page, kComparisonScript));
    write_file_atomically(folder.compare_path(), texts.json);
  });
  std::cout << texts.tables << '\n' << "report: " << folder.compare_page_path() << '\n';
  return 0;
}

void refuse_given_truth(const EvalOptions& options) {
  for (const auto& [name, is_given] :
       {std::pair{"annotations", !options.annotations.empty()}, {"data", !options.data.empty()}}) {
    if (!is_given) continue;
    throw Error(ErrorKind::kUsage,
                cat("--", name, ": has no effect with two classifiers, whose predictions hold the ",
                    "true classes"),
                "leave the option out");
  }
}

// Returns the categories of an evaluation, in its order.
Categories evaluated_categories(const std::string& folder) {
  const JsonFile metrics = JsonFile::read(folder + "/metrics.json");
  const JsonView classes = metrics.root().at("per_class");
  Categories categories;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    categories.push_back({.id = classes.at(i).at("category_id").as_int(),
                          .name = classes.at(i).at("name").as_string()});
  }
  return categories;
}

// Compares two classifiers, from the predictions of both folders of options.compare. These
// hold the true classes: the shards are not needed. Throws kConfig (other images or classes), kData
// (content), kUsage (ground truth was given, which has no effect).
int compare_classifiers(const EvalOptions& options, const Cli& cli,
                        const std::array<StoredEvaluation, 2>& stored) {
  refuse_given_truth(options);
  std::array<ClassifiedSide, 2> sides;
  EvalIdentity identity;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string& path = stored[i].results;
    sides[i] = {.name = options.compare[i], .predictions = read_predictions(path)};
    identity.emplace_back(i == 0 ? EvaluationFolder::kComparedA : EvaluationFolder::kComparedB,
                          quoted(hex64(xxh3_file(path))));
  }
  identity.emplace_back(EvaluationFolder::kTask, quoted(kClassificationTask));
  const auto compare = [&](const ComparedNames& names) -> ComparisonTexts {
    const ClassificationComparison comparison =
        compare_predictions(sides, evaluated_categories(options.compare[0]));
    return {.json = classification_comparison_json(names, comparison),
            .tables = classification_comparison_text(names, comparison),
            .notes = {classification_interval_note(comparison)}};
  };
  return publish_comparison(options, cli,
                            {.identity = identity,
                             .inputs = {stored[0].results, stored[1].results},
                             .truth = stored[0].truth.path,
                             .metric = "top-1",
                             .compare = compare});
}

}  // namespace

int compare_evaluations(const EvalOptions& options, const Cli& cli) {
  std::array<Side, 2> sides{open_side(options.compare[0]), open_side(options.compare[1])};
  check_output(options, sides);
  check_one_task(sides);
  if (sides[0].stored.is_classification) {
    return compare_classifiers(options, cli, {sides[0].stored, sides[1].stored});
  }
  // Both sides are scored again on one ground truth, with one limit.
  const bool truth_is_given = !options.annotations.empty() || !options.data.empty();
  const Truth truth = truth_is_given ? given_truth(options, sides) : stored_truth(options, sides);
  for (Side& side : sides) read_detections(side, truth.instances);

  const std::uint32_t limit = detection_limit_of(options, sides, truth.source);
  EvalIdentity identity = comparison_identity(sides, truth.source);
  add_count_best(identity, limit);
  const auto compare = [&](const ComparedNames& names) -> ComparisonTexts {
    const Comparison comparison = compare_detections(
        truth.instances, sides[0].detections, sides[1].detections,
        {.detection_limit = limit, .names = {sides[0].stored.results, sides[1].stored.results}});
    // Oddities of either side go to the log.
    for (const std::string& note : box_notes(truth.instances)) {
      log_warning(truth.source.path, ": ", note);
    }
    for (const auto& [side, metrics] :
         {std::pair{&sides[0], &comparison.a}, {&sides[1], &comparison.b}}) {
      for (const std::string& warning :
           {detections_warning(truth.instances, side->detections, *metrics),
            oddities_text(*metrics)}) {
        if (!warning.empty()) log_warning(side->name, ": ", warning);
      }
    }
    return {.json = comparison_json(names, comparison),
            .tables = comparison_text(names, comparison),
            .notes = {interval_note(comparison), image_note()}};
  };
  return publish_comparison(
      options, cli,
      {.identity = identity,
       .inputs = {sides[0].stored.results, sides[1].stored.results, truth.source.path},
       .truth = truth.source.path,
       .metric = "AP",
       .compare = compare});
}

}  // namespace retina
