// Publishes detections, wherever they come from: files, the summary on standard output, the exit
// code.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "evaluate/evaluation_folder.h"
#include "evaluate/options.h"
#include "shared/base/task.h"
#include "shared/evaluation/score/box_groups.h"
#include "shared/evaluation/score/metrics.h"
#include "shared/shard/shard_set.h"

namespace retina {

// Returns a JSON string literal, the form of inputs in an EvalIdentity.
std::string quoted(const std::string& text);

// Adds the number of counted detections to the identity where it is not COCO's.
void add_count_best(EvalIdentity& identity, std::uint32_t detection_limit);

// The metric that decides the exit code: AP with --min-ap, or a classifier's top-1 accuracy with
// --min-top1.
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

// The counts of --draw, and the line that reports them.
struct Drawn {
  std::size_t image_count = 0, found_count = 0;  // images, detections on them
};
std::string drawn_text(const EvalOptions& options, const EvaluationFolder& folder,
                       const Drawn& drawn, const std::vector<Detection>& detections);

// Returns images of a set for a report page: small JPEG files by image id, without drawings. Ids
// that the set lacks get empty ones. Calls `on_image` after each. Throws kData when a record is
// damaged.
std::map<std::int64_t, std::string> page_images(const ShardSet& shards,
                                                const std::vector<std::int64_t>& image_ids,
                                                int max_side_px,
                                                const std::function<void()>& on_image);

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
// 1 when AP does not reach --min-ap. metrics.json comes last and marks the end.
int publish(const EvalOptions& options, const Cli& cli, const EvaluationFolder& folder,
            const Scored& scored);

}  // namespace retina
