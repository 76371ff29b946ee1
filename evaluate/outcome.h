// What retina-eval makes of detections, wherever they come from: files, the summary on standard
// output, the exit code.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "evaluate/evaluation_folder.h"
#include "evaluate/options.h"
#include "shared/evaluation/score/box_groups.h"
#include "shared/evaluation/score/metrics.h"
#include "shared/shard/shard_set.h"

namespace retina {

// A JSON string literal: how inputs stand in an EvalIdentity.
std::string quoted(const std::string& text);

// Says that `folder` holds this evaluation already. Returns the exit code.
int already_done(const EvalOptions& options, const EvaluationFolder& folder, double ap,
                 std::int64_t quarantined_count = 0);

// What an evaluation found.
struct Scored {
  std::string subject{};   // "run/checkpoint-08.pt on shards/val"
  const BoxGroups& boxes;  // of a model: detections in ascending image ids
  const CocoMetrics& metrics;
  const ShardSet* shards = nullptr;           // where the images are, if anywhere
  std::vector<std::string> notes{};           // doubts about the inputs, or empty
  std::function<void()> on_progress = [] {};  // called every now and then
};

// Explains the errors, draws, writes report and metrics, prints the result, returns the exit code:
// 1 when AP does not reach --min-ap. metrics.json comes last: it marks the end.
int publish(const EvalOptions& options, const Cli& cli, const EvaluationFolder& folder,
            const Scored& scored);

}  // namespace retina
