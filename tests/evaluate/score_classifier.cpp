// Evaluates synthetic scores as retina-eval does a model's, for
// tests/oracle/classification_metrics.py and class_page_test.py:
//
//   score_classifier FOLDER                  FOLDER/metrics.json and predictions.jsonl
//   score_classifier FOLDER SHARDS OUTPUT    a whole evaluation in OUTPUT, images from SHARDS
//
// FOLDER holds labels.i32 [N] and scores.f32 [N, K], little-endian. The images are 1, 2, ... and
// the classes 1, 2, ... "class 0", "class 1", ...; or those of SHARDS, images in ascending id
// order.
#include <algorithm>
#include <cstring>
#include <iostream>

#include "evaluate/explain/classification_text.h"
#include "evaluate/explain/predictions.h"
#include "evaluate/outcome.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/program.h"
#include "shared/cli/cli.h"

namespace retina {
namespace {

template <class T>
std::vector<T> read_array(const std::string& path) {
  const std::string bytes = read_file(path);
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

std::vector<ClassOutcome> outcomes_in(const std::string& folder,
                                      const std::vector<std::int64_t>& image_ids) {
  const auto labels = read_array<std::int32_t>(folder + "/labels.i32");
  const auto scores = read_array<float>(folder + "/scores.f32");
  const std::size_t class_count = scores.size() / labels.size();
  std::vector<ClassOutcome> outcomes;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    outcomes.push_back(class_outcome(
        {.image_id = image_ids.empty() ? static_cast<std::int64_t>(i) + 1 : image_ids.at(i),
         .label = labels[i],
         .scores = std::span(scores).subspan(i * class_count, class_count)}));
  }
  return outcomes;
}

void score(const std::string& folder) {
  const std::vector<ClassOutcome> outcomes = outcomes_in(folder, {});
  const std::size_t class_count =
      read_array<float>(folder + "/scores.f32").size() / outcomes.size();
  Categories categories;
  for (std::size_t i = 0; i < class_count; ++i) {
    categories.push_back({.id = static_cast<std::int64_t>(i) + 1, .name = cat("class ", i)});
  }
  const ClassificationMetrics metrics = classification_metrics(outcomes, categories);
  write_predictions(folder + "/predictions.jsonl", outcomes, categories, {});
  write_file_atomically(folder + "/metrics.json",
                        classification_json(metrics, class_examples(outcomes, metrics), {}));
}

int evaluate(const std::string& folder, const std::string& shard_folder,
             const std::string& output) {
  const ShardSet shards(shard_folder);
  std::vector<std::int64_t> ids;
  for (const IndexEntry& entry : shards.index()) ids.push_back(entry.image_id);
  std::sort(ids.begin(), ids.end());
  EvalOptions options;
  options.model = folder + "/scores.f32";
  options.data = shard_folder;
  options.output = output;
  options.overwrite = true;
  Cli cli("score_classifier", "", "");
  declare_options(cli, options);
  const std::vector<ClassOutcome> outcomes = outcomes_in(folder, ids);
  EvaluationFolder to(output);
  to.begin(classifier_identity(options, "made up"), cli.effective(), options.overwrite);
  return evaluate_classifier_outputs(options, cli, to,
                                     {.subject = cat(options.model, " on ", shard_folder),
                                      .outcomes = outcomes,
                                      .shards = shards});
}

}  // namespace
}  // namespace retina

int main(int argc, char** argv) {
  return retina::run_program("score_classifier", [&] {
    if (argc == 4) return retina::evaluate(argv[1], argv[2], argv[3]);
    if (argc != 2) return 64;
    retina::score(argv[1]);
    return 0;
  });
}
