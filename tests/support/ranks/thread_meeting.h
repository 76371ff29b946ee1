// Where the ranks of a ThreadWorld meet: one collective at a time, finished by who comes last.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "shared/comm/activity.h"
#include "tests/support/ranks/thread_world.h"

namespace retina {

// What a rank brings to a collective. The pointers stay valid until `meet` returns.
struct Attendance {
  Operation what = {};
  std::int64_t sequence = 0;  // how many collectives it says to have called before
  double seconds = 0;         // when it comes, on its clock
  void* data = nullptr;
  const std::string* sent = nullptr;             // gather
  std::vector<std::string>* received = nullptr;  // gather, on the root
};

// All methods may be called from any thread.
class ThreadMeeting {
 public:
  explicit ThreadMeeting(const ThreadWorldOptions& options);

  // Returns the virtual time at which the collective ended, when all ranks have come. Throws
  // Error{kRankFailure} as thread_world.h says; `seconds` then becomes the time of the failure.
  double meet(int rank, Attendance& mine);

  // Rank `rank` will not come again. `how` reads "left", "died" or "failed". Later calls for the
  // same rank change nothing.
  void leave(int rank, const std::string& how);

 private:
  enum class State { kAway, kHere, kGone };
  struct Place {
    State state = State::kAway;
    Attendance attendance = {};
    std::string how_gone = {};
  };

  // All below: with `mutex_` held.
  void conclude_if_settled();
  // What is wrong with the collective, "" when nothing.
  std::string missing() const;
  std::string disagreement() const;
  std::string lateness() const;
  std::string subject() const;
  double first_entry() const;
  double latest_entry() const;
  double cost_seconds() const;
  void transfer();
  void fail(const std::string& message, double seconds);
  [[noreturn]] void throw_failure(Attendance& mine) const;

  const RingTopology ring_;
  const double deadline_seconds_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Place> places_;
  int away_;  // ranks that are neither here nor gone
  int here_ = 0;
  std::int64_t finished_ = 0;  // collectives so far
  double end_seconds_ = 0;     // of the last finished one, or of the failure
  std::string failure_;
};

}  // namespace retina
