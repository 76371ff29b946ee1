// What this rank is doing right now, its phase and its collective: written by the threads that
// work, read by the watch thread, which sends it to the other ranks. A lock held for nanoseconds.
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

// What the program's main thread does.
enum class Phase : std::uint16_t {
  kStart = 0,            // before the first step, and between phases that nobody named
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

// "data.wait", "forward", ...; "unknown" for any other number.
std::string_view phase_name(Phase phase);

// Phases that come in every step and take about as long on every rank. The others may keep one rank
// busy for long: opening inputs, scoring a validation, a slow disk.
bool is_of_step(Phase phase);

// Phases in which a rank may wait for a disk or a mount, however slow that is.
bool is_write(Phase phase);

// The calls of communicator.h.
enum class CollectiveKind : std::uint8_t {
  kAllReduce = 0,
  kBroadcast = 1,
  kGather = 2,
  kBarrier = 3,
  kAllReduceOrdered = 4
};

// One collective as its caller sees it. Equal on all ranks, or the ranks have diverged.
struct Operation {
  CollectiveKind kind = CollectiveKind::kBarrier;
  ElementType type = ElementType::kUint8;
  ReduceOp reduce = ReduceOp::kSum;
  std::int32_t root = 0;         // of broadcast and gather
  std::uint64_t count = 0;       // elements; 0 for gather, whose lengths may differ
  std::array<char, 32> label{};  // the caller's name for it, e.g. "bucket 5"; ends with a zero

  // Cuts what is too long.
  void set_label(std::string_view text);
  std::string_view label_text() const;
  std::uint64_t bytes() const { return count * element_size_bytes(type); }
  // xxh3 of every field.
  std::uint64_t hash() const;
  // The label, or the kind where there is none: "bucket 5", "broadcast".
  std::string name() const;
  // "all_reduce (sum) of 1,048,576 f32".
  std::string describe() const;
};

// 1048576 as "1,048,576".
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

// Hears of every change at once, on the thread that makes it and one at a time. Must be quick and
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
