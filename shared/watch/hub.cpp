#include <sys/socket.h>

#include <algorithm>
#include <csignal>

#include "shared/base/error.h"
#include "shared/base/signals.h"
#include "shared/watch/watch_loop.h"

namespace retina {
namespace {

constexpr double kPendingSeconds = 5;
// Limit of unknown peers, beside a job's own ranks.
constexpr std::size_t kMaxStrangers = 64;

}  // namespace

Hub::Hub(WatchContext& context, Descriptor listener)
    : WatchLoop(context),
      listener_(std::move(listener)),
      peers_(static_cast<std::size_t>(context.size)),
      detector_(context.options, context.hosts) {}

std::vector<Connection*> Hub::connections() {
  std::vector<Connection*> all;
  for (PendingPeer& pending : pending_) all.push_back(&pending.connection);
  for (Peer& peer : peers_) {
    if (peer.connection) all.push_back(&*peer.connection);
  }
  return all;
}

void Hub::welcome(double now_s) {
  while (pending_.size() < peers_.size() + kMaxStrangers) {
    const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) break;
    pending_.push_back({Connection(Descriptor(fd)), now_s});
  }
  for (PendingPeer& pending : pending_) {
    const std::vector<Frame> frames = pending.connection.receive();
    if (frames.empty()) continue;
    const auto greeting =
        frames[0].type == FrameType::kHello ? frames[0].as<Greeting>() : std::nullopt;
    const bool known = greeting && greeting->token == context_.job &&
                       greeting->size == context_.size && greeting->rank > 0 &&
                       greeting->rank < context_.size;
    pending.since_s = -1e9;  // decided: it is removed from the list below
    if (!known || pending.connection.ended()) continue;
    Peer& peer = peers_[static_cast<std::size_t>(greeting->rank)];
    // A rank greets again if it was not answered in time.
    if (peer.connection && (peer.heard || !peer.connection->ended())) continue;
    peer.view.gone = false;
    pending.connection.send(encode(FrameType::kWelcome, *greeting));
    peer.connection.emplace(std::move(pending.connection));
    for (std::size_t i = 1; i < frames.size(); ++i) take(peer, frames[i], now_s);
  }
  std::erase_if(pending_, [&](const PendingPeer& pending) {
    return pending.connection.ended() || now_s - pending.since_s > kPendingSeconds;
  });
}

void Hub::take(Peer& peer, const Frame& frame, double now_s) {
  const int rank = static_cast<int>(&peer - peers_.data());
  if (auto state = decode_state(frame, rank)) {
    peer.view.state = *state;
    peer.view.heard_s = now_s;
    peer.heard = true;
    if (state->left != 0) changed_ = true;
  } else if (frame.type == FrameType::kEnd) {
    const auto notice = frame.as<EndNotice>();
    if (!notice || suppresses_reports()) return;
    for (Peer& other : peers_) {
      if (other.connection && &other != &peer) {
        other.connection->send(encode(FrameType::kEnd, *notice));
      }
    }
    suppress_reports(*notice, now_s);
  }
}

// Starts the silence of ranks that have not sent anything: one may be lost before its first
// heartbeat.
void Hub::expect_all(double now_s) {
  expects_all_ = true;
  for (std::size_t rank = 1; rank < peers_.size(); ++rank) {
    Peer& peer = peers_[rank];
    if (!peer.connection || peer.heard) continue;
    peer.heard = true;
    peer.view.state.rank = static_cast<std::int32_t>(rank);
    peer.view.heard_s = now_s;
  }
}

void Hub::receive(double now_s) {
  welcome(now_s);
  if (context_.all_joined && !expects_all_) expect_all(now_s);
  for (Peer& peer : peers_) {
    if (!peer.connection || peer.view.gone) continue;
    for (const Frame& frame : peer.connection->frames()) take(peer, frame, now_s);
    if (peer.connection->ended()) {
      peer.view.gone = true;
      changed_ = true;
    }
  }
}

std::vector<RankView> Hub::views(double now_s) {
  std::vector<RankView> all{{.state = context_.activity->state(), .heard_s = now_s}};
  for (const Peer& peer : peers_) {
    if (peer.heard) all.push_back(peer.view);
  }
  return all;
}

void Hub::beat(double now_s) {
  HubState own{.state = context_.activity->state()};
  for (std::size_t rank = 1; rank < peers_.size() && own.first_elsewhere == 0; ++rank) {
    const RankView& view = peers_[rank].view;
    const bool heard =
        peers_[rank].heard && !view.gone && now_s - view.heard_s < 10 * context_.options.period_s;
    if (!heard) continue;
    const auto number = static_cast<std::int32_t>(rank);
    if (own.first_heard == 0) own.first_heard = number;
    if (context_.hosts.at(rank) != context_.hosts.at(0)) own.first_elsewhere = number;
  }
  const std::string frame = encode(FrameType::kHub, own);
  for (Peer& peer : peers_) {
    if (peer.connection) peer.connection->send_if_idle(frame);
  }
}

void Hub::look(double now_s, bool beaten) {
  if (!beaten && !changed_) return;
  changed_ = false;
  const std::vector<RankView> all = views(now_s);
  // mpirun may notice a cut network first. It ends its ranks, SIGTERM and a second later SIGKILL,
  // and says neither which are lost nor what they were doing.
  if (stop_signal() == SIGTERM) detector_.shorten_timeouts(now_s);
  const auto diagnosis = detector_.diagnose(all, now_s);
  if (!diagnosis) {
    if (!context_.all_left && all_left(all)) {
      send_to_all(encode(FrameType::kAllLeft, std::string_view()));
      context_.all_left = true;
      context_.all_left.notify_all();
    }
    for (const std::string& line : detector_.warnings(all, now_s)) context_.handler.warn(line);
    return;
  }
  if (was_given_up(now_s)) {
    // On this node it is known whether a rank has reported already; ranks of other nodes may have.
    const bool are_here = std::all_of(
        diagnosis->ranks.begin(), diagnosis->ranks.end(),
        [&](int rank) { return context_.hosts.at(static_cast<std::size_t>(rank)) == own_host(); });
    if (are_here ? !claim_diagnosis() : diagnosis->kind == DiagnosisKind::kDied) {
      end_process(exit_code(ErrorKind::kRankFailure));
      return;
    }
  }
  end_job(*diagnosis, lost_rank_notice(detector_.launcher_wait_s(*diagnosis, all)), now_s);
}

bool Hub::all_left(const std::vector<RankView>& views) const {
  return views.size() == peers_.size() &&
         std::all_of(views.begin(), views.end(),
                     [](const RankView& view) { return view.state.left != 0; });
}

void Hub::end_job(const Diagnosis& diagnosis, const EndNotice& notice, double now_s) {
  context_.handler.report(diagnosis.message, diagnosis.hint);
  claim_diagnosis();  // for ranks that stand still meanwhile
  send_to_all(encode(FrameType::kEnd, notice));
  drain();
  suppress_reports(notice, now_s);
}

void Hub::exclude_gap(double gap_s) {
  for (Peer& peer : peers_) peer.view.heard_s += gap_s;
}

}  // namespace retina
