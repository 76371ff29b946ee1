// The present activity of this rank, its phase and its collective: written by the threads that
// work, read by the watch thread, which sends it to the other ranks. The lock is held for
// nanoseconds.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "shared/comm/element_type.h"

namespace retina {

// Activity of the program's main thread.
enum class Phase : std::uint16_t {
  kStart = 0,            // before the first step, and between named phases
  kDataWait = 1,         // waiting for the loader
  kDataDecode = 2,       // reading and decoding images
  kForward = 3,          // model and loss
  kBackward = 4,         // gradients
  kReduce = 5,           // waiting for gradients to be summed
  kUpdate = 6,           // the optimiser's step
  kValidate = 7,         // detecting on the validation set and scoring
  kCheckpointWrite = 8,  // snapshot, waiting for the writer, writing
  kEnd = 9,              // the work is done, other ranks may not be
  kMetricsWrite = 10,    // appending to the run's log
};

// Returns "data.wait", "forward", ...; "unknown" for any other number.
std::string_view phase_name(Phase phase);

// Returns true for phases that come in every step and take about as long on every rank. The others
// may keep one rank busy for long: opening inputs, scoring a validation, a slow disk.
bool is_of_step(Phase phase);

// Returns true for phases in which a rank may wait for a disk or a mount, however slow that is.
bool is_write(Phase phase);

// Kinds of collectives: the calls of communicator.h.
enum class CollectiveKind : std::uint8_t {
  kAllReduce = 0,
  kBroadcast = 1,
  kGather = 2,
  kBarrier = 3,
  kAllReduceOrdered = 4
};

// A collective as its caller sees it. Equal on all ranks, or the ranks have diverged.
struct Operation {
  CollectiveKind kind = CollectiveKind::kBarrier;
  ElementType type = ElementType::kUint8;
  ReduceOp reduce = ReduceOp::kSum;
  std::int32_t root = 0;         // root of broadcast and gather
  std::uint64_t count = 0;       // elements; 0 for gather, whose lengths may differ
  std::array<char, 32> label{};  // the caller's name for it, e.g. "bucket 5"; ends with a zero

  // Sets the label, cut to fit.
  void set_label(std::string_view text);
  std::string_view label_text() const;
  std::uint64_t bytes() const { return count * element_size_bytes(type); }
  // Returns the xxh3 of all fields.
  std::uint64_t hash() const;
  // Returns the label, or the kind if there is none: "bucket 5", "broadcast".
  std::string name() const;
  // Returns "all_reduce (sum) of 1,048,576 f32".
  std::string describe() const;
};

// Returns 1048576 as "1,048,576".
std::string with_commas(std::uint64_t value);

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
  // The chain is kept at every multiple of this, so that two ranks that are far apart, or too fast
  // for `recent`, still have a number in common.
  static constexpr std::uint64_t kMarkEvery = 256;

  std::int32_t rank = 0;
  Phase phase = Phase::kStart;
  std::uint8_t in_collective = 0;  // entered number `sequence` and has not come back
  std::uint8_t left = 0;           // its work ended normally
  std::int64_t step = 0;           // begun so far
  std::uint64_t sequence = 0;      // collectives entered so far
  double in_phase_s = 0;
  double in_collective_s = 0;  // 0 outside one
  double quiet_s = 0;          // since the last change
  // Time since its last collective in phases that may take long (is_of_step is false), not counting
  // the current one: other ranks are patient with these.
  double excused_s = 0;
  double median_step_s = 0;               // median of the last 32; 0 before the fourth
  std::array<Entered, kRecent> recent{};  // newest first
  std::array<Entered, 2> marks{};         // newest first

  // Returns the collective that it is in or was in last; nullptr before the first.
  const Entered* last() const { return recent[0].sequence == 0 ? nullptr : recent.data(); }
};

// Holds the activity of this rank. Thread-safe.
class Activity {
 public:
  explicit Activity(int rank);

  // Enters a phase and returns the previous one.
  Phase enter(Phase phase);
  // Marks the start of `step`; 1 is the first.
  void set_step(std::int64_t step);
  void begin(const Operation& operation);
  void end();
  // Announces that no collective will follow.
  void leave();
  // Excludes `gap_s` from every duration of `state`: this process stood still for that long, just
  // now.
  void exclude_gap(double gap_s);
  RankState state() const;

 private:
  using Clock = std::chrono::steady_clock;

  mutable std::mutex mutex_;
  RankState state_;
  Clock::time_point phase_since_ = Clock::now(), changed_ = phase_since_;
  Clock::time_point collective_since_, collective_end_;
  std::optional<Clock::time_point> step_since_;
  std::array<double, 32> step_seconds_{};
  std::size_t step_count_ = 0;
};

// Puts the main thread into `phase` for the scope's life. With a null activity it does nothing.
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
