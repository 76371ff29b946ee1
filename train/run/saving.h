// Saves the run: decides when a checkpoint is due, adds to it what a checkpoint holds besides
// weights, and names its file in the run's folder. The writing itself runs alongside training.
#pragma once

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
#include "train/run/run_dir.h"
#include "train/run/run_state.h"
#include "train/schedule/schedule.h"
#include "train/step/replica.h"

namespace retina {

struct SavingOptions {
  Span period = {.count = 1, .unit = Span::Unit::kEpochs};
  int keep = 3;              // newest checkpoints kept besides the best
  bool writes = true;        // the job writes checkpoints, on rank 0
  std::string folder = {};   // the run's folder
  std::string scratch = {};  // local disk to build checkpoints on; empty: in `folder`
  // Names the last checkpoint of a run with --steps by its step, even at an epoch's end.
  bool names_last_step = false;
};

// The sources of a checkpoint. References must outlive the Saving.
struct SavingInput {
  SavingOptions options;
  RunFacts facts;
  const std::vector<EffectiveOption>& effective_options;
  const Categories& categories;
  Communicator& communicator;
  Replica& replica;
  RunDir* run_dir = nullptr;  // null: writes nothing, as on ranks other than 0
};

// Writes checkpoints on a thread of its own, one at a time, while training goes on. With a scratch
// folder each is built and verified there, then copied to the run's folder and compared.
class Saving {
 public:
  // Throws kCannotCreate for the scratch folder.
  explicit Saving(const SavingInput& input);
  // Waits for the checkpoint under way; its error becomes a warning.
  ~Saving() { finish_or_warn(); }
  Saving(const Saving&) = delete;
  Saving& operator=(const Saving&) = delete;

  // Prepares saving, before the loop. On rank 0 throws kIo when the folder has no room for the
  // checkpoints: better now than after an epoch.
  void begin();

  // Takes `state` as saved: the run continues from its checkpoint. Without a validation set, new
  // checkpoints keep the fingerprint of the set that its AP is of.
  void continue_from(const RunState& state);
  void set_total_steps(std::int64_t steps) { input_.facts.total_steps = steps; }
  // Marks the current state as saved in no checkpoint.
  void forget_saved() { saved_step_ = -1; }

  // Throws the error of a checkpoint that has been written meanwhile. Rank 0.
  void check_written();
  // Returns the milliseconds for which training paused to save since the last call. Rank 0.
  double take_stall_ms() { return std::exchange(stall_ms_, 0.0); }

  // Returns true if a checkpoint is due after step `step`: at each epoch's end, unless the period
  // is in epochs, and by the count of steps.
  bool is_due(std::int64_t step, bool epoch_end) const;
  // Returns true if a checkpoint is due by the clock; rank 0's answer decides.
  bool is_due_by_clock() const;
  // Returns the step of the newest checkpoint, set when its write begins; -1: there is none.
  std::int64_t saved_step() const { return saved_step_; }

  // Copies all that will be saved and begins to write it; on rank 0, after `sync_log` has put the
  // log of these steps on the disk. The facts are added to `state`. Throws kIo, and the error of
  // the previous checkpoint. Collective.
  void save(const RunState& state, const std::function<void()>& sync_log);

  // Returns the checkpoint that would be saved now. Rank 0.
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
  SavingInput input_;
  double stall_ms_ = 0;
  std::int64_t saved_step_ = -1;
  double last_save_seconds_ = 0;
  Scratch scratch_;
  std::future<void> under_way_;  // rank 0; its thread uses the members above
};

}  // namespace retina
