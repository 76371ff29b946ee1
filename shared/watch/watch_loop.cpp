#include "shared/watch/watch_loop.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "shared/base/descriptor.h"
#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/base/measure.h"

namespace retina {
namespace {

// Time for the launcher to end a process whose job has failed, before it ends itself.
constexpr int kLauncherMs = 5000;
// Time for the peers to read the last message before this process is gone.
constexpr double kDrainSeconds = 0.3;
// Interval between two checks of the sockets, for each rank of the job: for a thousand, 20 ms.
// Checking them all for each of their four thousand heartbeats a second took a third of a core.
constexpr double kLookSecondsPerRank = 20e-6;
// Delay above which the loop was not running.
constexpr double kGapSeconds = 1;
// Time between a rank that gives another one up and the next that does.
constexpr double kGiveUpSeconds = 2.5;

}  // namespace

WatchLoop::WatchLoop(WatchContext& context) : context_(context) {}

void WatchLoop::run() {
  double next_beat_s = now_seconds();
  double last_s = next_beat_s;
  while (!context_.stop) {
    wait(next_beat_s);
    const double now_s = now_seconds();
    notice_gap(now_s - last_s - context_.options.period_s, now_s);
    last_s = now_s;
    receive(now_s);
    if (context_.failing >= 0 && !suppresses_reports()) pass_on_failure(now_s);
    // The job ends and its reason is known: only this process's own end remains.
    if (suppresses_reports()) {
      if (now_s > *suppressed_until_s_) {
        if (end_notice_.is_cut_off != 0) context_.handler.end_launcher();
        end_process(end_notice_.exit_code);
      }
      next_beat_s = now_s + context_.options.period_s;
      continue;
    }
    const bool beaten = context_.beat_now.exchange(false) || now_s >= next_beat_s;
    if (beaten) {
      beat(now_s);
      next_beat_s = now_s + context_.options.period_s;
    }
    look(now_s, beaten);
  }
  if (ended_ || suppresses_reports()) return;
  beat(now_seconds());  // the last message: that this rank has left
  drain();
}

// Excludes a gap in which the whole job may have stood still (docker pause, a suspended batch job):
// no rank stalled.
void WatchLoop::notice_gap(double gap_s, double now_s) {
  if (gap_s <= kGapSeconds) return;
  context_.activity->exclude_gap(gap_s);
  exclude_gap(gap_s);
  const double limit_s = context_.options.stall_timeout_s;
  if (gap_s > std::max(limit_s / 2, limit_s - kGiveUpSeconds)) awake_since_s_ = now_s;
}

// Tells the other ranks to end silently: this one has reported an error of its own.
void WatchLoop::pass_on_failure(double now_s) {
  const EndNotice notice{.exit_code = context_.failing, .wait_ms = kLauncherMs};
  send_to_all(encode(FrameType::kEnd, notice));
  context_.failure_sent = true;
  suppress_reports(notice, now_s);
}

void WatchLoop::send_to_all(const std::string& frame) {
  for (Connection* connection : connections()) connection->send(frame);
}

bool WatchLoop::was_given_up(double now_s) const {
  return awake_since_s_ &&
         now_s - *awake_since_s_ < std::min(context_.options.stall_timeout_s, 2 * kGiveUpSeconds);
}

const std::string& WatchLoop::own_host() const {
  return context_.hosts.at(static_cast<std::size_t>(context_.rank));
}

bool WatchLoop::claim_diagnosis() const {
  const std::string path = cat(context_.options.folder, "/retina-diagnosis-", hex64(context_.job),
                               "-", hex64(xxh3(own_host())));
  return Descriptor(path, O_WRONLY | O_CREAT | O_EXCL) || errno != EEXIST;
}

void WatchLoop::drain() {
  const double until_s = now_seconds() + kDrainSeconds;
  for (Connection* connection : connections()) connection->finish_sending();
  std::vector<struct pollfd> list;
  while (now_seconds() < until_s) {
    list.clear();
    for (Connection* connection : connections()) {
      connection->receive();
      if (!connection->ended()) {
        list.push_back({.fd = connection->fd(), .events = POLLIN, .revents = 0});
      }
    }
    if (list.empty()) break;
    ::poll(list.data(), list.size(), 20);
  }
}

void WatchLoop::wait(double until_s) {
  std::vector<struct pollfd> list;
  const auto add = [&](int fd, short events) {
    list.push_back({.fd = fd, .events = events, .revents = 0});
  };
  const auto poll_until = [&](double end_s) {
    const double left_s = std::max(0.0, end_s - now_seconds());
    ::poll(list.data(), list.size(), static_cast<int>(left_s * 1e3) + 1);
  };
  add(context_.wake.get(), POLLIN);
  // Ranks that have yet to join wait in a queue that may be short (net.core.somaxconn).
  if (context_.all_joined) {
    poll_until(std::min(until_s, last_look_s_ + context_.size * kLookSecondsPerRank));
  }
  if (listener() >= 0) add(listener(), POLLIN);
  const std::size_t before = list.size();
  const std::vector<Connection*> all = connections();
  for (const Connection* connection : all) {
    // poll ignores a negative descriptor.
    add(connection->ended() ? -1 : connection->fd(),
        static_cast<short>(POLLIN | (connection->has_unsent() ? POLLOUT : 0)));
  }
  poll_until(until_s);
  last_look_s_ = now_seconds();
  std::uint64_t count = 0;
  [[maybe_unused]] const auto size = ::read(context_.wake.get(), &count, sizeof(count));
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (list[before + i].revents == 0) continue;
    all[i]->flush();
    all[i]->read();
  }
}

void WatchLoop::end_process(int code) {
  ended_ = true;
  context_.stop = true;  // in case the handler returns
  context_.handler.end(code);
}

void WatchLoop::suppress_reports(const EndNotice& notice, double now_s) {
  if (suppresses_reports()) return;
  if (context_.failing < 0) context_.diagnosis_known = true;
  suppressed_until_s_ = now_s + notice.wait_ms * 1e-3;
  end_notice_ = notice;
}

EndNotice WatchLoop::lost_rank_notice(double launcher_wait_s) {
  return {.exit_code = exit_code(ErrorKind::kRankFailure),
          .wait_ms = static_cast<std::int32_t>(launcher_wait_s * 1e3),
          .is_cut_off = launcher_wait_s > 0 ? 1 : 0};
}

}  // namespace retina
