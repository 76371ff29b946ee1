// A job in one process, for tests: each rank is a thread with its own Communicator, and a script
// says which rank dies where. Same inputs and script: same results, same error message on every
// rank, whatever the scheduler does.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shared/comm/communicator.h"

namespace retina {

// At its collective number `collective`, counted from 0 over all kinds, the rank's call throws, and
// the rank is gone.
struct RankFault {
  int rank = 0;
  std::int64_t collective = 0;
};

struct ThreadWorldOptions {
  struct Ring {
    int ranks = 1;
    int ranks_per_node = 0;  // 0: all on one node; the last node may have fewer
  };
  Ring ring = {};
  std::vector<RankFault> faults = {};
};

// One rank. One thread at a time uses it. `all_reduce` adds in rank order, as `all_reduce_ordered`
// does. Throws Error{kRankFailure}, on all ranks alike, when
// - ranks call different collectives, or with another count, type or root;
// - a rank can never come: its object is destroyed, or its function in `run` threw. Known when all
//   others have come or are gone too.
// After that every further call throws the same.
using ThreadRank = Communicator;

// How a rank of `run` ended.
struct RankOutcome {
  std::exception_ptr failure = nullptr;  // what its function threw
  std::string message = {};              // of `failure`
  CommStats stats = {};
};

class ThreadMeeting;

class ThreadWorld {
 public:
  explicit ThreadWorld(const ThreadWorldOptions& options);

  // Rank `rank`, once each. May outlive the world. A rank that nobody takes is waited for.
  std::unique_ptr<ThreadRank> take(int rank);

  // Takes all ranks and calls `body` for each on a thread of its own; returns when all have ended.
  std::vector<RankOutcome> run(const std::function<void(ThreadRank&)>& body);

 private:
  ThreadWorldOptions options_;
  std::shared_ptr<ThreadMeeting> meeting_;
};

}  // namespace retina
