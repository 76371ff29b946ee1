// A training job on this rank: options, device, data, and where its run starts.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/measure.h"
#include "shared/cli/cli.h"
#include "shared/comm/communicator.h"
#include "shared/data/loader.h"
#include "train/run/continuation.h"
#include "train/run/run_dir.h"
#include "train/start/options.h"
#include "train/start/run_defaults.h"
#include "train/start/training_data.h"

namespace retina {

// A command line and the options that it fills; both must outlive the calls below.
struct Command {
  Cli& cli;
  TrainOptions& options;
};

struct Job {
  TrainOptions options;
  std::vector<EffectiveOption> effective_options;
  Communicator& communicator;
  c10::Device device = c10::kCPU;
  std::optional<TrainingData> data = {};
  Command* command = nullptr;  // set by fit_to_data(), for what changes during the run
  double begun_s = now_seconds();
  std::vector<std::string> notes = {};  // decisions by the data, with reasons, a line each; rank 0
  // The rest is set on rank 0 only.
  std::unique_ptr<RunDir> dir = {};  // null: nothing is written
  std::optional<Found> found = {};   // the checkpoint to continue from
  RunConfig config = {};             // of a run that is written

  bool is_root() const { return communicator.is_root(); }
};

// Returns, for --min-side auto, the median of the images' shorter sides, and the longer side that
// nearly all images then have; the default sizes at most.
InputSides own_sides(const TrainOptions& options, const ImageIndex& index);

// Sets the options that the data, the measured speed, --init, and a run that is already in --output
// decide, as far as they are not given: those of decide_run(); for --min-side auto the images'
// median; for
// --anchor-sizes auto what fits the boxes of the manifests, resized as the run resizes them. No
// record is read. Returns what was chosen and why, a line each. Throws kConfig, kIo. Rank 0.
std::vector<std::string> decide_defaults(Cli& cli, TrainOptions& options, Job& job);

// Returns the decode threads of this rank: those at the start, and the most.
DecodeThreads decode_threads(const Job& job);

// Fills `dir` and `found`, after the data have been opened; checks everything before it changes the
// folder. For a run that has finished, a folder that cannot be written suffices. An --init that
// names a run's folder becomes the file of its best checkpoint. Throws kConfig, kNoInput, kData,
// kCannotCreate, kIo. Rank 0.
void open_run(Job& job);

// Returns --lr-drop-at with the drops before `step` as steps, so that another length does not move
// them. `drop_steps`: where `drop_at` has them; with a drop left out there, none is changed.
std::vector<std::string> with_drops_made(std::vector<std::string> drop_at,
                                         const std::vector<std::int64_t>& drop_steps,
                                         std::int64_t step);

// Gives the run that many steps in all after `step` of them, in the options and in its folder.
// Drops of its rate that have been made stay where they were.
void change_steps(Job& job, std::int64_t steps, std::int64_t step);

// The effect of the job on a run that is already in --output.
struct ExistingRun {
  std::string text{};  // for people, in whole lines; "" where there is no run
  bool is_finished = false;
};
// Returns what open_run() would do, after its checks, without changing a file. Throws as
// open_run(). Rank 0.
ExistingRun existing_run(Job& job);

// Returns how to continue a run that has nothing left to do: the checkpoint to continue from is its
// last, and its report is written. "" for any other run.
std::string finished(const Job& job);

}  // namespace retina
