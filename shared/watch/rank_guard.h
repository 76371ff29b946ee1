// A limit on joint work of the ranks while no watch guards them: MPI's start and end, and the time
// until they have found each other.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "shared/watch/watch.h"

namespace retina {

// Starts a thread that gets no signals: the program's handlers run where they always did.
std::thread signal_free_thread(std::function<void()> body);

struct GuardTerms {
  int rank = 0;
  double limit_s = 60;
  // Extra wait of each of ranks 1 and 2 over the one before. One rank reports: rank 0, or rank 1 if
  // rank 0 is the one that stands still.
  double second_s = 2.5;
  std::string what{};  // "MPI has not started on every rank"; " within 60 s" follows
  std::string hint{};
  int exit_code = 0;
  bool ends_launcher = false;  // it might wait for the rank that stands still
};

// Ends the process unless this object is destroyed within the limit. Time in which the whole
// process stood still does not count.
class RankGuard {
 public:
  RankGuard(GuardTerms terms, const WatchHandler& handler);
  ~RankGuard();
  RankGuard(const RankGuard&) = delete;
  RankGuard& operator=(const RankGuard&) = delete;

 private:
  bool is_over_within(double limit_s);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace retina
