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
#include "train/options.h"
#include "train/run/continuation.h"
#include "train/run/run_dir.h"
#include "train/run_defaults.h"
#include "train/training_data.h"

namespace retina {

struct Job {
  TrainOptions options;
  std::vector<EffectiveOption> effective_options;
  Communicator& communicator;
  c10::Device device = c10::kCPU;
  std::optional<TrainingData> data = {};
  std::vector<std::string> notes = {};  // what the data decided, a line each; rank 0
  // Rank 0 only.
  std::unique_ptr<RunDir> dir = {};  // null: nothing is written
  std::optional<Found> found = {};   // the checkpoint to continue from

  bool is_root() const { return communicator.is_root(); }
};

// What the data, --init, and a run that is in --output already decide of the options; the size
// for --min-side auto is the images' median; the anchors for --anchor-sizes auto are those for the
// boxes of the manifests, resized as the run resizes them; no record is read. Changes nothing.
// Throws kConfig, kIo. Rank 0.
RunDefaults decide_defaults(const Cli& cli, const TrainOptions& options, const TrainingData& data);

// Decode threads of a rank.
DecodeThreads decode_threads(const Job& job);

// Fills `dir` and `found`, with the data opened before; all is checked before the folder is
// changed. A folder that cannot be written is good enough for a run that has finished. An --init
// that names a run's folder becomes the file of its best checkpoint. Throws kConfig, kNoInput,
// kData, kCannotCreate, kIo. Rank 0.
void open_run(Job& job);

// What the job would do with a run that is in --output already.
struct Outlook {
  std::string text{};  // lines; "" where there is no run
  bool is_finished = false;
};
// open_run() without changing anything. Rank 0.
Outlook outlook(Job& job);

// Whether the checkpoint to continue from is the run's last, and its report is written.
bool is_finished(const Job& job);

}  // namespace retina
