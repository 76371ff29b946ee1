// Publishes a classifier's outcomes: files, the summary on standard output, the exit code;
// outcome.h does the same for detections. No LibTorch. The caller runs the model and does, on rank
// 0:
//
//   check_classifier_options(options);
//   EvaluationFolder folder(options.output);
//   if (const auto top1 = folder.begin(classifier_identity(options, data_hash), cli.effective(),
//                                      options.overwrite)) {
//     return already_done(options, folder, {Task::kClassification, *top1, quarantined_count});
//   }
//   // every rank: outcomes.push_back(class_outcome(...)) for its share of the images
//   const auto all = gather_by_image(ranks, outcomes);
//   return as_io_error([&] { return evaluate_classifier_outputs(options, cli, folder, {...}); });
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "evaluate/evaluation_folder.h"
#include "evaluate/options.h"
#include "shared/evaluation/score/class_outcome.h"
#include "shared/shard/shard_set.h"

namespace retina {

// Throw Error{kConfig} naming a given option that has no meaning for the model's task, which only
// the model file shows.
void check_classifier_options(const EvalOptions& options);
void check_detector_options(const EvalOptions& options);

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
// metrics.json; prints the result. Returns the exit code: 1 when top-1 does not reach --min-top1.
// Each file appears whole; metrics.json comes last and marks the end. Throws kData (no images, a
// damaged record), kIo.
int evaluate_classifier_outputs(const EvalOptions& options, const Cli& cli,
                                const EvaluationFolder& folder, const Classified& classified);

}  // namespace retina
