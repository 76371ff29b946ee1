#include <poll.h>

#include <chrono>
#include <thread>

#include "shared/base/error.h"
#include "shared/base/measure.h"
#include "shared/watch/watch_loop.h"

namespace retina {
namespace {

constexpr double kConnectSeconds = 1;
constexpr int kRoundsInVain = 5;
constexpr std::chrono::milliseconds kBetweenRounds(100);
// Delay between two ranks: all at once would be more than the hub's queue holds
// (net.core.somaxconn, on older kernels 128), and a rank that does not get in waits for its
// kernel's next try.
constexpr std::chrono::microseconds kBetweenRanks(200);
// Share of the join limit; after that the job continues without a watch rather than ending.
constexpr double kJoinShare = 0.8;

// Sends a greeting and waits for the hub's welcome.
bool greet(Connection& connection, const WatchContext& context) {
  const Greeting greeting{.token = context.job, .rank = context.rank, .size = context.size};
  connection.send(encode(FrameType::kHello, greeting));
  const double until_s = now_seconds() + 2 * kConnectSeconds;
  while (!connection.ended() && now_seconds() < until_s) {
    struct pollfd wait {
      .fd = connection.fd(), .events = POLLIN, .revents = 0
    };
    ::poll(&wait, 1, 100);
    for (const Frame& frame : connection.receive()) {
      const auto answer = frame.type == FrameType::kWelcome ? frame.as<Greeting>() : std::nullopt;
      if (answer && answer->token == context.job) return true;
    }
  }
  return false;
}

}  // namespace

std::optional<Connection> join_hub(const WatchContext& context,
                                   const std::vector<std::string>& addresses, std::uint16_t port) {
  const double until_s = now_seconds() + kJoinShare * context.options.join_limit_s;
  int rounds_in_vain = 0;
  while (rounds_in_vain < kRoundsInVain && now_seconds() < until_s) {
    ++rounds_in_vain;
    std::this_thread::sleep_for(context.rank * kBetweenRanks);
    for (const std::string& address : addresses) {
      auto socket = connect_to(address, port, kConnectSeconds);
      if (!socket) continue;
      rounds_in_vain = 0;
      // Another node's docker bridge may have this address too: only the token tells them apart.
      Connection connection(std::move(*socket));
      if (greet(connection, context)) return connection;
    }
    std::this_thread::sleep_for(kBetweenRounds);
  }
  return std::nullopt;
}

Spoke::Spoke(WatchContext& context, Connection connection)
    : WatchLoop(context),
      connection_(std::move(connection)),
      hub_{.state = {}, .heard_s = now_seconds()},
      detector_(context.options, context.hosts) {}

void Spoke::receive(double now_s) {
  for (const Frame& frame : connection_.frames()) {
    if (const auto hub = decode_hub_state(frame)) {
      last_ = *hub;
      hub_.state = hub->state;
      hub_.heard_s = now_s;
    } else if (frame.type == FrameType::kAllLeft) {
      context_.all_left = true;
      context_.all_left.notify_all();
    } else if (frame.type == FrameType::kEnd) {
      if (const auto notice = frame.as<EndNotice>()) suppress_reports(*notice, now_s);
    }
  }
  if (connection_.ended()) hub_.gone = true;
}

void Spoke::beat(double) {
  connection_.send_if_idle(encode(FrameType::kState, context_.activity->state()));
}

void Spoke::look(double now_s, bool) {
  if (context_.stop) return;
  // The hub diagnoses everything else; this checks only whether the hub is there.
  std::vector<RankView> both{hub_, {.state = context_.activity->state(), .heard_s = now_s}};
  // The hub may leave only after it has announced that all have left: this rank waits for that
  // message.
  if (!context_.all_left) both[0].state.left = 0;
  const auto diagnosis = detector_.lost(both, now_s);
  if (!diagnosis) {
    lost_since_s_.reset();
    return;
  }
  if (!lost_since_s_) lost_since_s_ = now_s;
  if (now_s - *lost_since_s_ < report_delay_s()) return;
  // The hub may have reported this rank; on its own node that would be known.
  const bool is_reported = diagnosis->kind == DiagnosisKind::kDied && was_given_up(now_s) &&
                           context_.hosts.at(0) != own_host();
  if (!is_reported && claim_diagnosis()) {
    context_.handler.report(diagnosis->message, diagnosis->hint);
  }
  suppress_reports(lost_rank_notice(detector_.launcher_wait_s(*diagnosis, both)), now_s);
}

// Returns the delay before this rank reports. The lowest rank that the hub could still hear reports
// at once. It may have been lost with the hub's node: then one on another node does, before every
// node has to.
double Spoke::report_delay_s() const {
  if (last_.first_heard == 0 || last_.first_heard == context_.rank) return 0;
  return context_.options.second_s * (last_.first_elsewhere == context_.rank ? 0.5 : 1);
}

void Spoke::exclude_gap(double gap_s) {
  hub_.heard_s += gap_s;
}

}  // namespace retina
