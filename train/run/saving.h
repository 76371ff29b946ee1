// Saves the run: decides when a checkpoint is due, adds to it what a checkpoint holds besides
// weights, and names its file in the run's folder. The writing itself runs alongside training.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/output.h"
#include "shared/checkpoint/checkpoint.h"
#include "shared/cli/cli.h"
#include "shared/coco/categories.h"
#include "shared/comm/communicator.h"
#include "train/run/checkpoint_interval.h"
#include "train/run/run_dir.h"
#include "train/run/run_state.h"
#include "train/schedule/schedule.h"
#include "train/step/replica.h"

namespace retina {

struct SavingOptions {
  std::optional<Span> period = {};  // unset: at the best interval by `mtbf`, and at epoch ends
  std::string mtbf = "4h";          // mean time between failures of the whole job
  int keep = 3;                     // newest checkpoints kept besides the best
  bool writes = true;               // the job writes checkpoints, on rank 0
  std::string folder = {};          // the run's folder
  std::string scratch = {};         // local disk to build checkpoints on; empty: in `folder`
  // True: the last checkpoint of a run that --steps ends is named by its step, even at an epoch's
  // end.
  bool names_last_step = false;
};

// The sources of a checkpoint. References must outlive the saving.
struct SavingInput {
  SavingOptions options;
  RunFacts facts;
  const std::vector<EffectiveOption>& effective_options;
  const Categories& categories;
  Communicator& communicator;
  Replica& replica;
  RunDir* run_dir = nullptr;  // rank 0 only
};

// Checkpoints are written on a thread of its own, one at a time, while training goes on. With a
// scratch folder each is built and verified there, then copied to the run's folder and compared.
class Saving {
 public:
  // Throws kCannotCreate.
  explicit Saving(const SavingInput& input);
  // Waits for the checkpoint under way; its error becomes a warning.
  ~Saving() { finish_or_warn(); }
  Saving(const Saving&) = delete;
  Saving& operator=(const Saving&) = delete;

  // Prepares saving, before the loop. Throws kIo when the folder has no room for the checkpoints:
  // better now than after an epoch. Rank 0.
  void begin();

  // Continues from a checkpoint of this state. Without a validation set, new checkpoints keep the
  // fingerprint of the set that its AP is of.
  void continue_from(const RunState& state);
  // Marks the current state as saved in no checkpoint.
  void forget_saved() { saved_step_ = -1; }

  // Adds the time of a step, for --checkpoint-every auto. Throws the error of a checkpoint that was
  // under way. Rank 0.
  void add_step(double seconds);
  // Returns the milliseconds for which training paused to save since the last call. Rank 0.
  double take_stall_ms() { return std::exchange(stall_ms_, 0.0); }

  // Returns whether a checkpoint is due after this step by the count of steps.
  bool is_due(std::int64_t step, bool epoch_end) const;
  // Returns whether one is due by the clock; rank 0's decides.
  bool is_due_by_clock() const;
  // Returns the step of the newest checkpoint, set when its write begins; -1: there is none.
  std::int64_t saved_step() const { return saved_step_; }

  // Copies all that will be saved and begins to write it, after `sync_log` has brought the log of
  // these steps to the disk (rank 0). `state` is without its facts. Throws kIo, and the error of
  // the previous checkpoint. Collective.
  void save(const RunState& state, const std::function<void()>& sync_log);

  // Returns all that would be saved now; rank 0.
  Checkpoint checkpoint_of(const RunState& state) const;

  // Waits for the checkpoint under way. Throws its error.
  void finish();
  // Does the same, but turns an error into a warning, which does not prevent another checkpoint.
  void finish_or_warn();

 private:
  // Returns true when an epoch ends with this step, its validation included.
  bool ends_epoch(const RunState& state) const;
  RunPoint name_of(const RunState& state) const;
  bool is_writing() const;
  // Waits for the file under way. Throws its error.
  void wait();
  void write(const RunState& state);
  void set_interval();
  SavingInput input_;
  // Used on rank 0, for auto.
  CheckpointMeter meter_;
  double interval_s_ = 0, logged_interval_s_ = 0;
  bool was_writing_ = false;
  std::atomic<double> write_s_ = 0;

  double stall_ms_ = 0;
  std::int64_t saved_step_ = -1;
  double last_save_seconds_ = 0;
  Scratch scratch_;
  std::future<void> under_way_;  // rank 0; its thread uses the members above
};

}  // namespace retina
