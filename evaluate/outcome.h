// Publishes an evaluation's result, of a detector wherever its detections come from, or of a
// classifier: files, the summary on standard output, the exit code. No LibTorch.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "evaluate/evaluation_folder.h"
#include "evaluate/options.h"
#include "shared/base/task.h"
#include "shared/evaluation/score/box_groups.h"
#include "shared/evaluation/score/class_outcome.h"
#include "shared/evaluation/score/metrics.h"
#include "shared/shard/shard_set.h"

namespace retina {

// Returns a JSON string literal, the form of inputs in an EvalIdentity.
std::string quoted(const std::string& text);

// Adds the number of counted detections to the identity where it is not COCO's.
void add_count_best(EvalIdentity& identity, std::uint32_t detection_limit);

// The metric that decides the exit code: AP, or a classifier's top-1 accuracy.
struct DecidingMetric {
  Task task = Task::kDetection;
  double value = 0;
  std::int64_t quarantined_count = 0;  // images of the set that are not evaluated
};
// Returns the exit code: 0, or 1 with the reason on the log when the metric does not reach the
// wanted minimum. The log names quarantined images either way.
int exit_code_for(const EvalOptions& options, const DecidingMetric& metric);

// Prints that `folder` holds this evaluation already. Returns the exit code.
int already_done(const EvalOptions& options, const EvaluationFolder& folder,
                 const DecidingMetric& metric);

// Returns the line that reports the number of drawn images.
std::string drawn_text(const EvalOptions& options, const EvaluationFolder& folder,
                       std::size_t drawn_count);

// The findings of an evaluation.
struct Scored {
  std::string subject{};   // "run/checkpoint-08.pt on shards/val"
  const BoxGroups& boxes;  // with a model: detections in ascending image ids
  const CocoMetrics& metrics;
  const ShardSet* shards = nullptr;           // the source of the images, if any
  std::vector<std::string> notes{};           // warnings about the inputs, or empty
  std::function<void()> on_progress = [] {};  // called from time to time
};

// Explains the errors, draws, writes report and metrics, prints the result. Returns the exit code:
// 1 when AP does not reach --min-score. metrics.json comes last and marks the end.
int publish(const EvalOptions& options, const Cli& cli, const EvaluationFolder& folder,
            const Scored& scored);

// Throw Error{kConfig} naming a given option that has no meaning for the model's task, which only
// the model file shows.
void check_classifier_options(const EvalOptions& options);

// Returns the settings and inputs that decide a classifier's evaluation. Inputs count by content:
// `data_hash` is that of the shards' manifest. Reads the model file.
EvalIdentity classifier_identity(const EvalOptions& options, const std::string& data_hash);

struct Classified {
  std::string subject{};                      // "run/checkpoint-08.pt on shards/val"
  const std::vector<ClassOutcome>& outcomes;  // ascending image ids, each once
  const ShardSet& shards;                     // labels are indices into its manifest's categories
  std::function<void()> on_progress = [] {};  // called from time to time
};

// Writes predictions.jsonl, report.html, with --draw the most confident mistakes in drawn/, and
// metrics.json; prints the result. Returns the exit code: 1 when top-1 does not reach --min-score.
// Each file appears whole; metrics.json comes last and marks the end. Throws kData (no images, a
// damaged record), kIo.
int evaluate_classifier_outputs(const EvalOptions& options, const Cli& cli,
                                const EvaluationFolder& folder, const Classified& classified);

}  // namespace retina
