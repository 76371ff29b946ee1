// A training job on this rank: options, device, data, and where its run starts.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/cli.h"
#include "shared/comm/communicator.h"
#include "shared/data/loader.h"
#include "shared/shard/shard_set.h"
#include "train/options.h"
#include "train/plan/training_plan.h"
#include "train/run/continuation.h"
#include "train/run/run_dir.h"

namespace retina {

// The images that a rank works on, and the plan of the run's steps over them.
struct TrainingData {
  // Throws kNoInput, kData, kConfig: sets that cannot be read or do not fit the task or each other.
  explicit TrainingData(const TrainOptions& options);
  TrainingData(const TrainingData&) = delete;
  TrainingData& operator=(const TrainingData&) = delete;

  std::optional<ShardSet> train_shards,
      validation;                      // not with --synthetic; validation: where given
  std::string validation_fingerprint;  // validation_identity(); empty: none
  std::unique_ptr<SampleSource> source;
  std::optional<TrainingSet> train;  // always, as `plan`
  std::optional<TrainingPlan> plan;
};

struct Job {
  TrainOptions options;
  std::vector<EffectiveOption> effective_options;
  Communicator& communicator;
  c10::Device device = c10::kCPU;
  std::optional<TrainingData> data = {};
  // Rank 0 only.
  std::unique_ptr<RunDir> dir = {};  // null: nothing is written
  std::optional<Found> found = {};   // the checkpoint to continue from

  bool is_root() const { return communicator.is_root(); }
};

// Decode threads of a rank.
DecodeThreads decode_threads(const Job& job);

// Fills `dir` and `found`, with the data opened before; all is checked before the folder is
// changed. A folder that cannot be written is good enough for a run that has finished. An --init
// that names a run's folder becomes the file of its best checkpoint. Throws kConfig, kNoInput,
// kData, kCannotCreate, kIo. Rank 0.
void open_run(Job& job);

// Whether the checkpoint to continue from is the run's last, and its report is written.
bool is_finished(const Job& job);

}  // namespace retina
