// What retina-eval makes of detections, wherever they come from: files, the summary on standard
// output, the exit code.
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

// A JSON string literal: how inputs stand in an EvalIdentity.
std::string quoted(const std::string& text);

// Where an evaluation counts other than COCO's number of detections, that makes it another one.
void add_count_best(EvalIdentity& identity, std::uint32_t detection_limit);

// The number that decides: AP with --min-ap, or a classifier's top-1 accuracy with --min-top1.
struct DecidingMetric {
  Task task = Task::kDetection;
  double value = 0;
  std::int64_t quarantined_count = 0;  // of the set: not evaluated
};
// The exit code: 0, or 1 when it does not reach what the options ask for, with the reason on the
// log. A set with quarantined images is marked either way.
int exit_code_for(const EvalOptions& options, const DecidingMetric& metric);

// Says that `folder` holds this evaluation already. Returns the exit code.
int already_done(const EvalOptions& options, const EvaluationFolder& folder,
                 const DecidingMetric& metric);

// What --draw has drawn, and the line that says so, and why it is not more.
struct Drawn {
  std::size_t image_count = 0, found_count = 0;  // images, detections on them
};
std::string drawn_text(const EvalOptions& options, const EvaluationFolder& folder,
                       const Drawn& drawn, const std::vector<Detection>& detections);

// Images of a set for a report page: small JPEG files by image id, without anything drawn on them.
// Ids that the set lacks get empty ones. `on_image` is called after each. Throws kData when a
// record is damaged.
std::map<std::int64_t, std::string> page_images(const ShardSet& shards,
                                                const std::vector<std::int64_t>& image_ids,
                                                int max_side_px,
                                                const std::function<void()>& on_image);

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
