// --on-nan rollback: the steps that are left out because their loss was not finite, and the way
// back while a run has no checkpoint. Every rank keeps the same list.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "shared/checkpoint/checkpoint.h"

namespace retina {

class Rollback {
 public:
  // After this many returns in a row, without a new checkpoint, the trouble is not in single steps.
  static constexpr int kMostReturns = 3;

  bool may_return() const { return returns_ < kMostReturns; }
  // Step `step`, counted from 0, is left out from now on; training returns.
  void leave_out(std::int64_t step);
  // A step was made.
  void made_step() { made_step_ = true; }
  // A new checkpoint exists: the start is no longer needed. It ends the row when a step was made
  // since the latest return; one that only follows left-out steps is not progress.
  void saved();

  bool skips(std::int64_t step) const { return skipped_.contains(step); }
  const std::set<std::int64_t>& skipped() const { return skipped_; }
  // Steps left out before `step`: those made no update.
  std::int64_t skipped_before(std::int64_t step) const;

  // The run's first state; rank 0.
  void keep_start(Checkpoint start) { start_ = std::move(start); }
  const std::optional<Checkpoint>& start() const { return start_; }

  // The run continues from a checkpoint that has these.
  void merge(const std::set<std::int64_t>& skipped) {
    skipped_.insert(skipped.begin(), skipped.end());
  }

 private:
  std::set<std::int64_t> skipped_;
  int returns_ = 0;
  bool made_step_ = false;  // since the latest return
  std::optional<Checkpoint> start_;
};

}  // namespace retina
