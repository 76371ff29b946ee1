#include "shared/watch/rank_guard.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

#include "shared/base/cat.h"

namespace retina {
namespace {

using Seconds = std::chrono::duration<double>;

// Longest time that one wait may count for: during a longer one the process was not running.
constexpr double kLookSeconds = 0.5;

}  // namespace

std::thread signal_free_thread(std::function<void()> body) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  std::thread thread(std::move(body));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

RankGuard::RankGuard(GuardTerms terms, const WatchHandler& handler)
    : thread_(signal_free_thread([this, terms = std::move(terms), handler] {
        const double limit_s = terms.limit_s + std::min(terms.rank, 2) * terms.second_s;
        if (is_over_within(limit_s)) return;
        if (terms.rank <= 1) {
          handler.report(cat(terms.what, " within ", fixed(limit_s, 0), " s"), terms.hint);
        }
        if (terms.ends_launcher) handler.end_launcher();
        handler.end(terms.exit_code);
      })) {}

RankGuard::~RankGuard() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

bool RankGuard::is_over_within(double limit_s) {
  std::unique_lock lock(mutex_);
  for (double left_s = limit_s; left_s > 0; left_s -= kLookSeconds) {
    const Seconds wait(std::min(left_s, kLookSeconds));
    if (changed_.wait_for(lock, wait, [this] { return over_; })) return true;
  }
  return false;
}

}  // namespace retina
