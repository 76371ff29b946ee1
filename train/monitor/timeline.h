// --timeline FILE: what every rank did when, as a Chrome trace (about:tracing, ui.perfetto.dev;
// "Trace Event Format", Google 2016): complete events "X" in µs, pid = rank, tid = thread.
//
// Row "main": each step, in it the phases that PhaseScope reports (data.wait, forward, backward,
// reduce, update, on rank 0 metrics.write; between steps checkpoint.write and validate), in those
// the collectives of the main thread. Row "communication": the collectives of the other thread
// (collective_queue.h), a gradient bucket each, with its bytes. Times are rank 0's clock: each rank
// measures at the start how far its own is ahead (the error is in the file's
// otherData) and subtracts that.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "shared/base/file.h"
#include "shared/comm/activity.h"
#include "shared/comm/communicator.h"

namespace retina {

// Distinguishes the file from other programs' traces.
inline constexpr const char* kTimelineMark = "\"clock_error_us\":";

// This rank's clock compared with rank 0's.
struct ClockOffset {
  std::int64_t ahead_ns = 0;  // ahead of rank 0's clock; 0 on rank 0
  std::int64_t error_ns = 0;  // largest error
};

// Measures the offset by Cristian's method (1989, "Probabilistic clock synchronization") over the
// Communicator. Rank 0 reads its clock (t0) and broadcasts a byte; rank r reads its own (s) on
// receipt and broadcasts it; rank 0 reads its clock again (t1). Rank r read s between t0 and t1, so
// its clock is s - (t0 + t1) / 2 ahead of rank 0's, wrong by (t1 - t0) / 2 at most. The round with
// the smallest t1 - t0 counts. `clock_ns` reads this rank's clock. Holds at the time of the call:
// clocks drift, commonly by some µs a second. Collective.
ClockOffset measure_clock_offset(Communicator& communicator,
                                 const std::function<std::int64_t()>& clock_ns);

// The recorded steps, counted from 1 at this start of the program.
struct StepWindow {
  std::int64_t first = 1, last = 20;
};

// Parses "FROM:TO". Throws Error{kUsage} with --`option` as the subject.
StepWindow parse_step_window(const std::string& option, const std::string& text);

// Records one rank's events. Memory is bounded: the window's steps, and 200,000 spans; later ones
// are only counted.
class Timeline : public ActivityListener {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Timeline(const StepWindow& window, std::size_t most_spans = 200000);

  // ActivityListener; `step` is recorded in the events.
  void on_phase(Phase phase, Clock::time_point now) override;
  void on_step(std::int64_t step, Clock::time_point now) override;
  void on_collective_begin(const Operation& operation, Clock::time_point now) override;
  void on_collective_end(Clock::time_point now) override;

  // Returns true when the window's last step is over, including its phases and what followed it.
  bool is_over() const;

  // Stops recording. Returns the events as JSON objects, each followed by ",\n"; times count from
  // `origin`.
  std::string finish(int rank, const std::string& node, Clock::time_point origin);
  std::int64_t skipped_count() const { return skipped_count_; }

 private:
  enum class Row : std::uint8_t { kMain, kCommunication };
  struct Span {
    Row row = Row::kMain;
    std::string name = {};
    Clock::time_point begin = {}, end = {};
    std::int64_t step = 0;
    std::optional<std::uint64_t> bytes = {};
  };
  bool is_recording() const {
    return steps_begun_ >= window_.first && steps_begun_ <= window_.last && !finished_;
  }
  void close_phase(Clock::time_point now);
  void close_step();
  void keep(Span span);

  const StepWindow window_;
  const std::size_t most_spans_;
  const std::thread::id main_thread_ = std::this_thread::get_id();
  mutable std::mutex mutex_;
  std::vector<Span> spans_;
  std::int64_t steps_begun_ = 0, step_ = 0, skipped_count_ = 0;
  bool finished_ = false;
  Phase phase_ = Phase::kStart;
  Clock::time_point phase_begin_ = {}, step_begin_ = {}, step_end_ = {};
  std::optional<Span> collective_;  // the one in progress
};

// The job's timeline: every rank records from the construction on; when the window is over, or at
// `finish`, rank 0 writes the file.
class TimelineFile {
 public:
  // `communicator` has an activity and must outlive this. Rank 0 makes the temporary file now, so
  // that a bad path ends the job at its start: throws kCannotCreate. Collective.
  TimelineFile(const std::string& path, const StepWindow& window, Communicator& communicator);
  ~TimelineFile();
  TimelineFile(const TimelineFile&) = delete;
  TimelineFile& operator=(const TimelineFile&) = delete;

  // Must be called on all ranks after each step and its checkpoint or validation. Throws kIo.
  // Collective.
  void after_step();
  // Writes the file unless that was done; called at the end of the work, even an early one. Throws
  // kIo. Collective.
  void finish();

 private:
  void write();
  Communicator& communicator_;
  Timeline timeline_;
  ClockOffset clock_;
  Timeline::Clock::time_point origin_;  // on this rank's clock
  std::unique_ptr<AtomicFile> file_;    // on rank 0, until it is written
  bool written_ = false;
};

}  // namespace retina
