// The two watch threads, hub (rank 0) and spoke (every other rank); used by watch.cpp and tests
// only.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "shared/watch/failure_detector.h"
#include "shared/watch/protocol.h"
#include "shared/watch/watch.h"

namespace retina {

// State shared by the main thread and the watch thread.
struct WatchContext {
  WatchOptions options;
  WatchHandler handler;
  int rank = 0, size = 1;
  std::uint64_t job = 0;  // drawn by rank 0: the token
  std::vector<std::string> hosts{};
  Activity* activity = nullptr;
  Descriptor wake{};  // an eventfd
  std::atomic<bool> stop{false};
  std::atomic<bool> beat_now{false};
  std::atomic<bool> all_joined{false};  // every rank has its connection
  std::atomic<bool> all_left{false};    // every rank has ended its work
  std::atomic<int> failing{-1};         // exit code of the error that this rank has reported
  std::atomic<bool> failure_sent{false};
  std::atomic<bool> diagnosis_known{false};  // this process ends without another message
};

// The common part of hub and spoke.
class WatchLoop {
 public:
  explicit WatchLoop(WatchContext& context);
  virtual ~WatchLoop() = default;
  // Runs until `context.stop`.
  void run();

 protected:
  virtual std::vector<Connection*> connections() = 0;
  virtual int listener() const { return -1; }
  // Takes the messages that the connections have read.
  virtual void receive(double now_s) = 0;
  // Sends heartbeats, every period.
  virtual void beat(double now_s) = 0;
  // Checks after each wait whether something is wrong.
  virtual void look(double now_s, bool beaten) = 0;
  // Ends all connections once the peers have read everything sent: closing one with unread data
  // would reset it, and the last message would be lost.
  void drain();
  // Excludes `gap_s`, in which this process slept: silence of others during that time means
  // nothing.
  virtual void exclude_gap(double gap_s) = 0;

  void send_to_all(const std::string& frame);
  void end_process(int code);
  // Suppresses further reports once the reason for the job's end is reported; the launcher ends
  // this process, or it does so itself.
  void suppress_reports(const EndNotice& notice, double now_s);
  // Returns the notice that ends a job whose launcher has `launcher_wait_s` to do so first.
  static EndNotice lost_rank_notice(double launcher_wait_s);
  bool suppresses_reports() const { return suppressed_until_s_.has_value(); }
  // Returns true if this process stood still until just now, for about as long as others wait.
  // Ranks that are gone now have left because of that and reported it, or were lost in that time.
  bool was_given_up(double now_s) const;
  const std::string& own_host() const;
  // Returns true if this rank reports a lost one for its node; true also if the ranks cannot agree
  // on one.
  bool claim_diagnosis() const;

  WatchContext& context_;

 private:
  void wait(double until_s);
  void notice_gap(double gap_s, double now_s);
  void pass_on_failure(double now_s);

  std::optional<double> suppressed_until_s_, awake_since_s_;
  double last_look_s_ = 0;
  EndNotice end_notice_;
  bool ended_ = false;
};

class Hub : public WatchLoop {
 public:
  Hub(WatchContext& context, Descriptor listener);

 protected:
  std::vector<Connection*> connections() override;
  int listener() const override { return listener_.get(); }
  void receive(double now_s) override;
  void beat(double now_s) override;
  void look(double now_s, bool beaten) override;
  void exclude_gap(double gap_s) override;

 private:
  struct PendingPeer {  // connected, has not sent the token yet
    Connection connection;
    double since_s;
  };
  struct Peer {
    std::optional<Connection> connection{};
    RankView view{};
    bool heard = false;  // or must have been by now
  };
  void welcome(double now_s);
  void take(Peer& peer, const Frame& frame, double now_s);
  void expect_all(double now_s);
  std::vector<RankView> views(double now_s);
  bool all_left(const std::vector<RankView>& views) const;
  void end_job(const Diagnosis& diagnosis, const EndNotice& notice, double now_s);

  Descriptor listener_;
  std::vector<PendingPeer> pending_;
  std::vector<Peer> peers_;  // by rank; that of rank 0 is unused
  FailureDetector detector_;
  bool expects_all_ = false;
  bool changed_ = false;  // a connection has ended since the last check
};

class Spoke : public WatchLoop {
 public:
  Spoke(WatchContext& context, Connection connection);

 protected:
  std::vector<Connection*> connections() override { return {&connection_}; }
  void receive(double now_s) override;
  void beat(double now_s) override;
  void look(double now_s, bool beaten) override;
  void exclude_gap(double gap_s) override;

 private:
  double report_delay_s() const;

  Connection connection_;
  RankView hub_;
  HubState last_{};  // its last state
  FailureDetector detector_;
  std::optional<double> lost_since_s_;
};

// Connects to the hub at any of `addresses` and greets, repeatedly for most of the join limit while
// the hub does not answer. Returns nothing in the end, or soon if no address can be connected to.
std::optional<Connection> join_hub(const WatchContext& context,
                                   const std::vector<std::string>& addresses, std::uint16_t port);

}  // namespace retina
