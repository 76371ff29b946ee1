// What this rank is doing right now: written by the threads that work, read by the watch thread,
// which sends it to the other ranks. A lock held for nanoseconds.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>

#include "shared/comm/operation.h"

namespace retina {

// A collective that a rank has entered.
struct Entered {
  std::uint64_t sequence = 0;  // 1 for the first of the job; 0: none
  std::uint64_t chain = 0;     // hash over this and all operations before it
  std::int64_t step = 0;
  Operation operation{};
};

// A rank's state as a heartbeat carries it. Durations, not times: clocks differ between nodes.
struct RankState {
  static constexpr std::size_t kRecent = 8;
  // The chain at every multiple of this is kept, so that two ranks that are far apart, or too fast
  // for `recent`, still have a number in common.
  static constexpr std::uint64_t kMarkEvery = 256;

  std::int32_t rank = 0;
  Phase phase = Phase::kStart;
  std::uint8_t in_collective = 0;  // entered number `sequence` and has not come back
  std::uint8_t left = 0;           // the normal end of its work
  std::int64_t step = 0;           // begun so far
  std::uint64_t sequence = 0;      // collectives entered so far
  double in_phase_s = 0;
  double in_collective_s = 0;  // 0 outside one
  double quiet_s = 0;          // since anything changed
  // Since its last collective, in phases that may take long (is_of_step is false), not counting the
  // current one: the others wait patiently for these.
  double excused_s = 0;
  double median_step_s = 0;               // of the last 32; 0 before the fourth
  std::array<Entered, kRecent> recent{};  // newest first
  std::array<Entered, 2> marks{};         // newest first

  // The collective that it is in or was in last; nullptr before the first.
  const Entered* last() const { return recent[0].sequence == 0 ? nullptr : recent.data(); }
};

// Is told every change at once, on the thread that makes it and one at a time. Must be quick and
// may not call the Activity.
class ActivityListener {
 public:
  virtual ~ActivityListener() = default;
  virtual void on_phase(Phase phase, std::chrono::steady_clock::time_point now) = 0;
  virtual void on_step(std::int64_t step, std::chrono::steady_clock::time_point now) = 0;
  virtual void on_collective_begin(const Operation& operation,
                                   std::chrono::steady_clock::time_point now) = 0;
  virtual void on_collective_end(std::chrono::steady_clock::time_point now) = 0;
};

// Thread-safe.
class Activity {
 public:
  explicit Activity(int rank);

  // Returns the phase before.
  Phase enter(Phase phase);
  // `step` begins; 1 is the first.
  void set_step(std::int64_t step);
  void begin(const Operation& operation);
  void end();
  // No collective will follow.
  void leave();
  // This process stood still for `gap_s`, just now: that time is in no duration of `state`.
  void exclude_gap(double gap_s);
  // Null: nobody. The listener outlives this or is removed first.
  void set_listener(ActivityListener* listener);
  RankState state() const;

 private:
  using Clock = std::chrono::steady_clock;

  mutable std::mutex mutex_;
  ActivityListener* listener_ = nullptr;
  RankState state_;
  Clock::time_point phase_since_ = Clock::now(), changed_ = phase_since_;
  Clock::time_point collective_since_, collective_end_;
  std::optional<Clock::time_point> step_since_;
  std::array<double, 32> step_seconds_{};
  std::size_t step_count_ = 0;
};

// The main thread is in `phase` for as long as this lives. A null activity: nobody watches.
class PhaseScope {
 public:
  PhaseScope(Activity* activity, Phase phase) : activity_(activity) {
    if (activity_ != nullptr) before_ = activity_->enter(phase);
  }
  ~PhaseScope() {
    if (activity_ != nullptr) activity_->enter(before_);
  }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  Activity* activity_;
  Phase before_ = Phase::kStart;
};

}  // namespace retina
