// Failure detector: from the states of the ranks to a diagnosis of one line. No clock, no sockets:
// the caller passes the time, so every rule is tested with recorded states.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "shared/comm/activity.h"
#include "shared/watch/watch_options.h"

namespace retina {

// A rank's last state and the time when it came.
struct RankView {
  RankState state{};
  double heard_s = 0;  // on the caller's clock
  bool gone = false;   // its connection has ended
};

enum class DiagnosisKind { kDied, kSilent, kMismatch, kLeft, kStalled };

struct Diagnosis {
  DiagnosisKind kind = DiagnosisKind::kDied;
  std::vector<int> ranks{};  // ranks to blame; of a mismatch, the smaller side
  std::string message{};     // one line
  std::string hint{};
};

class FailureDetector {
 public:
  // Takes the name of every rank's node in `hosts`.
  FailureDetector(WatchOptions options, std::vector<std::string> hosts);

  // Returns nothing if no rank looks lost. `views` may cover only those ranks that have been heard
  // from.
  std::optional<Diagnosis> diagnose(const std::vector<RankView>& views, double now_s) const;

  // Diagnoses only ranks that died or fell silent.
  std::optional<Diagnosis> lost(const std::vector<RankView>& views, double now_s) const;

  // Shortens timeouts for a moment: the launcher may be ending this process, in a second, so ranks
  // that were silent before `now_s` are given up sooner. It may also have asked only for a
  // checkpoint.
  void shorten_timeouts(double now_s);

  // Returns the seconds that the launcher has to end the job after `diagnosis`.
  double launcher_wait_s(const Diagnosis& diagnosis, const std::vector<RankView>& views) const;

  // Returns new warnings only: silent ranks and stragglers, each rank once per collective.
  std::vector<std::string> warnings(const std::vector<RankView>& views, double now_s);

  // Returns "rank 3 (node-b)", "ranks 2, 3 (node-b)", "64 ranks on 8 nodes (512-575)".
  std::string names(const std::vector<int>& ranks) const;

 private:
  std::optional<Diagnosis> mismatch(const std::vector<RankView>& views) const;
  std::optional<Diagnosis> died(const std::vector<RankView>& views, double now_s) const;
  std::optional<Diagnosis> left(const std::vector<RankView>& views) const;
  std::optional<Diagnosis> silent(const std::vector<RankView>& views, double now_s) const;
  std::optional<Diagnosis> stalled(const std::vector<RankView>& views, double now_s) const;
  std::optional<Diagnosis> stalled_outside(const std::vector<RankView>& views, double now_s) const;
  double silence_limit_s(const RankView& view, double now_s) const;
  // Returns true if the rank has been silent for a few periods: it will be heard again, or be
  // diagnosed as lost, before long.
  bool is_silent(const RankView& view, double now_s) const;
  double stall_limit_s(const RankState& state) const;
  std::string last_seen(const RankView& view, double now_s) const;

  WatchOptions options_;
  std::vector<std::string> hosts_;
  std::set<std::pair<int, std::uint64_t>> warned_;
  std::optional<double> short_since_s_;
};

}  // namespace retina
