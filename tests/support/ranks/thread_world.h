// A job in one process: each rank is a thread with its own Communicator. For tests, and to play
// through clusters that nobody has: time is virtual (each rank has its own clock, moved by
// `advance` and by what collectives cost over modelled links), and a script says which rank fails
// where. Same inputs and script: same results, same times, same error message on every rank,
// whatever the scheduler does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shared/comm/communicator.h"
#include "tests/support/ranks/ring_topology.h"

namespace retina {

// What goes wrong at a rank's collective number `collective`, counted from 0 over all kinds. None
// of them leads to a wrong sum: all end in an error, a stall only past the deadline.
struct RankFault {
  enum class Kind {
    kDie,         // the call throws there, the rank is gone
    kStall,       // the rank comes `stall_seconds` later
    kSwap,        // the rank comes with its next collective first
    kOtherCount,  // the rank comes with one element more
  };
  int rank = 0;
  std::int64_t collective = 0;
  Kind kind = Kind::kDie;
  double stall_seconds = 0;
};

struct ThreadWorldOptions {
  RingTopology ring = {};       // with the number of ranks; by default communication costs nothing
  double deadline_seconds = 0;  // longest virtual wait for another rank in a collective; 0: no end
  std::vector<RankFault> faults = {};
};

// One rank. One thread at a time uses it. `all_reduce` adds in rank order, as `all_reduce_ordered`
// does. Throws Error{kRankFailure}, on all ranks alike, when
// - ranks call different collectives, or with another count, type or root: names what was called
//   and the ranks on each side;
// - a rank can never come: its object is destroyed, or its function in `run` threw. Known when all
//   others have come or are gone too;
// - a rank comes later than the deadline: names it and how late it was.
// After that every further call throws the same.
class ThreadRank : public Communicator {
 public:
  // Computing: this rank's clock moves on.
  virtual void advance(double seconds) = 0;
  // Virtual time since the start. A collective ends, on all ranks, at the latest entry + its cost
  // (ring_topology.h).
  virtual double now_seconds() const = 0;
};

// How a rank of `run` ended.
struct RankOutcome {
  std::exception_ptr failure = nullptr;  // what its function threw
  std::string message = {};              // of `failure`
  double seconds = 0;                    // its clock
  CommStats stats = {};                  // `seconds` of it are virtual too
};

class ThreadMeeting;

class ThreadWorld {
 public:
  explicit ThreadWorld(const ThreadWorldOptions& options);
  ThreadWorld(const ThreadWorld&) = delete;
  ThreadWorld& operator=(const ThreadWorld&) = delete;
  ~ThreadWorld();

  // Rank `rank`, once each. May outlive the world. A rank that nobody takes is waited for.
  std::unique_ptr<ThreadRank> take(int rank);

  // Takes all ranks and calls `body` for each on a thread of its own; returns when all have ended.
  // Throws Error{kUnavailable} when the machine has no more threads.
  std::vector<RankOutcome> run(const std::function<void(ThreadRank&)>& body);

 private:
  ThreadWorldOptions options_;
  std::shared_ptr<ThreadMeeting> meeting_;
  std::vector<bool> taken_;
};

}  // namespace retina
