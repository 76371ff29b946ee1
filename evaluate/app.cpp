#include "evaluate/app.h"

#include <malloc.h>

#include <future>
#include <optional>
#include <vector>

#include "evaluate/box_reading.h"
#include "evaluate/compare/compare.h"
#include "evaluate/evaluation_folder.h"
#include "evaluate/model_library.h"
#include "evaluate/options.h"
#include "evaluate/outcome.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/json.h"
#include "shared/base/log.h"
#include "shared/base/version.h"
#include "shared/coco/box_warnings.h"
#include "shared/coco/instances.h"
#include "shared/coco/results.h"
#include "shared/evaluation/score/ground_truth.h"
#include "shared/evaluation/score/metrics.h"
#include "shared/job/rank_program.h"
#include "shared/shard/shard_set.h"

namespace retina {

namespace {

constexpr const char* kUsage =
    "retina-eval --model RUN|MODEL.onnx --data SHARDS --output DIR [options]\n"
    "retina-eval --model RUN|MODEL.onnx --images PATH... --output DIR [options]\n"
    "retina-eval --detections RESULTS.json --annotations INSTANCES.json --output DIR\n"
    "retina-eval --detections RESULTS.json --data SHARDS --output DIR\n"
    "retina-eval --compare A B --output DIR     each a DIR of the above or a RESULTS.json\n"
    "mpirun -np N retina-eval --model ...     every image once, on one of the ranks";
constexpr const char* kSummary = "scores detections as COCO does, with a model or on results";

// Returns the identity of an evaluation of results. Inputs count by content, so that moved files
// are the same evaluation.
EvalIdentity scoring_identity(const EvalOptions& options, const ShardSet* shards,
                              std::uint32_t limit) {
  const std::string truth =
      shards != nullptr ? manifest_hash(shards->manifest()) : hex64(xxh3_file(options.annotations));
  EvalIdentity identity{{"detections", quoted(hex64(xxh3_file(options.detections)))},
                        {shards != nullptr ? "data" : "annotations", quoted(truth)}};
  add_count_best(identity, limit);
  return identity;
}

// Throws kData for a box of negative size; degenerate boxes are scored.
void check_sizes(const Instances& truth, const std::string& path) {
  for (const Annotation& one : truth.annotations) {
    if (one.bbox[2] >= 0 && one.bbox[3] >= 0) continue;
    throw Error(ErrorKind::kData,
                cat(path, ": annotation id ", one.id, ": bbox: got a size of ",
                    shortest(one.bbox[2]), " x ", shortest(one.bbox[3]), ", want at least 0 x 0"),
                "COCO's boxes are [x, y, width, height]");
  }
}

int score_results(const EvalOptions& options, const Cli& cli) {
  std::optional<ShardSet> shards;
  if (!options.data.empty()) shards.emplace(options.data, options.scratch);
  const ShardSet* const set = shards ? &*shards : nullptr;
  const std::uint32_t limit = options.detection_limit(set != nullptr && is_tiled(set->index()));
  const std::string& truth_path = shards ? options.data : options.annotations;
  // The results are read and hashed while this thread reads the ground truth.
  auto reading = std::async(std::launch::async, [&] { return read_results(options.detections); });
  auto identity =
      std::async(std::launch::async, [&] { return scoring_identity(options, set, limit); });
  const Instances truth = shards ? ground_truth_of(*shards) : read_instances(options.annotations);
  check_sizes(truth, truth_path);
  const std::vector<Detection> detections = reading.get();
  check_file_names(options.detections, file_name_finder(truth));
  const BoxGroups boxes(truth, detections, 0, limit, options.detections);
  CocoMetrics metrics = evaluate_detections(boxes);
  if (shards) metrics.quarantined_count = shards->manifest().counts.quarantined;
  // A finished evaluation of the same inputs is only reported.
  EvaluationFolder folder(options.output);
  if (const auto done =
          folder.begin(identity.get(), cli.effective(), options.overwrite, {options.detections})) {
    return already_done(
        options, folder,
        {Task::kDetection, headline_metric(*done).as_double(), metrics.quarantined_count});
  }
  std::vector<std::string> notes = shards ? shards->manifest().notes : box_notes(truth);
  for (std::string& note : notes) note = cat(truth_path, ": ", note);
  if (const std::string warning = detections_warning(truth, detections, metrics);
      !warning.empty()) {
    notes.push_back(cat(options.detections, ": ", warning));
  }
  return as_io_error([&] {
    return publish(options, cli, folder,
                   {.subject = cat(options.detections, " on ", truth_path),
                    .boxes = boxes,
                    .metrics = metrics,
                    .shards = set,
                    .notes = notes});
  });
}

int evaluate(const EvalOptions& options, const Cli& cli, Communicator& ranks) {
  root_first(ranks, [&] { check_rank_count(options.expect_ranks, ranks); });
  if (!options.scores_only() && !options.compares()) {
    return evaluate_with_model(options, cli, ranks);
  }
  int code = 0;
  if (ranks.is_root()) {
#ifdef M_MMAP_THRESHOLD
    // A fixed threshold: blocks of this size go back to the system as soon as they are freed.
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
    code = options.compares() ? compare_evaluations(options, cli) : score_results(options, cli);
  }
  return static_cast<int>(ranks.all_reduce_max(code));
}

}  // namespace

int retina_eval(int argc, const char* const* argv) {
#ifdef RETINA_TORCH_VERSION
  register_library_version("LibTorch", [] { return RETINA_TORCH_VERSION; });
#endif
  EvalOptions options;
  Cli cli("retina-eval", kUsage, kSummary);
  declare_options(cli, options);
  return run_rank_program(
      "retina-eval", cli, argc, argv,
      [&](Communicator& ranks) { return evaluate(options, cli, ranks); }, options.watch);
}

}  // namespace retina
