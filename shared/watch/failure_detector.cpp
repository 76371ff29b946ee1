#include "shared/watch/failure_detector.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>

#include "shared/base/cat.h"
#include "shared/comm/communicator.h"

namespace retina {
namespace {

// Shortened timeout after the launcher's SIGTERM, a second after which its SIGKILL follows.
constexpr double kShortSeconds = 2;
// Number of nodes above which a line gives their count instead of names.
constexpr std::size_t kNodesNamed = 4;
constexpr char kAgain[] = "run the same command again";
constexpr char kRaiseTimeout[] = "run the same command again, or raise --stall-timeout";

// Returns "bucket 5 of step 812".
std::string place(const Entered& entered) {
  return cat(entered.operation.name(),
             entered.step > 0 ? cat(" of step ", entered.step) : " before the first step");
}

// The collective that most of the job is in, with the ranks that wait there.
struct Front {
  const Entered* entered = nullptr;
  std::vector<const RankView*> waiting{}, behind{};  // behind: have not entered it
};

// Returns a duration of the rank's state, extended by the time since its last heartbeat.
double until_now_s(double duration_s, const RankView& view, double now_s) {
  return duration_s + std::max(0.0, now_s - view.heard_s);
}

// Returns the time since the last change on any rank: states are from different moments, so one
// that is in a collective may be out of it already when another is seen behind it.
double all_quiet_s(const std::vector<RankView>& views, double now_s) {
  double shortest_s = std::numeric_limits<double>::infinity();
  for (const RankView& view : views) {
    shortest_s = std::min(shortest_s, until_now_s(view.state.quiet_s, view, now_s));
  }
  return shortest_s;
}

Front find_front(const std::vector<RankView>& views) {
  Front front;
  for (const RankView& view : views) {
    if (view.state.in_collective == 0 || view.gone) continue;
    const Entered* last = view.state.last();
    if (front.entered == nullptr || last->sequence > front.entered->sequence) front.entered = last;
  }
  if (front.entered == nullptr) return front;
  for (const RankView& view : views) {
    if (view.state.sequence < front.entered->sequence) front.behind.push_back(&view);
    if (view.state.in_collective == 0 || view.gone) continue;
    front.waiting.push_back(&view);
  }
  return front;
}

// Returns the longest wait for a rank that has entered no collective since number `sequence`. A
// rank whose last state is in an earlier one does not wait there any more.
double longest_wait_s(const Front& front, std::uint64_t sequence, double now_s) {
  double longest_s = 0;
  for (const RankView* view : front.waiting) {
    if (view->state.sequence <= sequence) continue;
    longest_s = std::max(longest_s, until_now_s(view->state.in_collective_s, *view, now_s));
  }
  return longest_s;
}

// Calls `call` for each entered collective; a mark may be in `recent` too.
template <class Call>
void for_each_entered(const RankState& state, const Call& call) {
  for (const Entered& entered : state.recent) call(entered);
  for (const Entered& entered : state.marks) call(entered);
}

bool contains(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

// Returns "; others wait in bucket 5 of step 812", not counting the `lost` ranks: those may have
// entered it too, after their last heartbeat.
std::string awaited(const std::vector<RankView>& views, const std::vector<int>& lost) {
  std::vector<RankView> others;
  std::copy_if(views.begin(), views.end(), std::back_inserter(others),
               [&](const RankView& view) { return !contains(lost, view.state.rank); });
  const Front front = find_front(others);
  return front.entered == nullptr ? "" : cat("; others wait in ", place(*front.entered));
}

bool is_in_steps(const RankState& state) {
  return state.step > 0 && (is_of_step(state.phase) || is_write(state.phase));
}

// Returns how long a rank outside collectives has made no progress. Within steps only the next
// collective counts; a long validation makes progress with each of its batches.
double still_for_s(const RankView& view, double now_s) {
  if (is_in_steps(view.state)) return std::numeric_limits<double>::infinity();
  return until_now_s(view.state.quiet_s, view, now_s);
}

std::vector<int> ranks_of(const std::vector<const RankView*>& views) {
  std::vector<int> ranks;
  for (const RankView* view : views) ranks.push_back(view->state.rank);
  return ranks;
}

}  // namespace

FailureDetector::FailureDetector(WatchOptions options, std::vector<std::string> hosts)
    : options_(std::move(options)), hosts_(std::move(hosts)) {}

std::string FailureDetector::names(const std::vector<int>& ranks) const {
  std::map<std::string, std::vector<int>> by_host;
  for (const int rank : ranks) by_host[hosts_.at(static_cast<std::size_t>(rank))].push_back(rank);
  if (by_host.size() > kNodesNamed) {
    return cat(ranks.size(), " ranks on ", by_host.size(), " nodes (", rank_ranges(ranks), ")");
  }
  std::string text;
  for (const auto& [host, own] : by_host) {
    text += cat(text.empty() ? "" : " and ", own.size() > 1 ? "ranks " : "rank ", rank_ranges(own),
                " (", host, ")");
  }
  return text;
}

std::string FailureDetector::last_seen(const RankView& view, double now_s) const {
  const RankState& state = view.state;
  std::string where =
      state.in_collective != 0 ? place(*state.last()) : std::string(phase_name(state.phase));
  if (state.in_collective == 0 && state.step > 0) where += cat(" of step ", state.step);
  const double ago = std::max(0.0, now_s - view.heard_s);
  return cat(" (last seen in ", where, ", ", fixed(ago, 1), " s ago)");
}

std::optional<Diagnosis> FailureDetector::diagnose(const std::vector<RankView>& views,
                                                   double now_s) const {
  // A mismatch comes first: it is why ranks die or stall.
  if (auto diagnosis = mismatch(views)) return diagnosis;
  if (auto diagnosis = died(views, now_s)) return diagnosis;
  if (auto diagnosis = left(views)) return diagnosis;
  if (auto diagnosis = silent(views, now_s)) return diagnosis;
  return stalled(views, now_s);
}

void FailureDetector::shorten_timeouts(double now_s) {
  if (!short_since_s_) short_since_s_ = now_s;
}

double FailureDetector::silence_limit_s(const RankView& view, double now_s) const {
  const bool is_shortened = short_since_s_ && now_s - *short_since_s_ < kShortSeconds &&
                            view.heard_s <= *short_since_s_ - 2 * options_.period_s;
  return is_shortened ? std::min(options_.stall_timeout_s, 6 * options_.period_s)
                      : options_.stall_timeout_s;
}

std::optional<Diagnosis> FailureDetector::lost(const std::vector<RankView>& views,
                                               double now_s) const {
  if (auto diagnosis = died(views, now_s)) return diagnosis;
  return silent(views, now_s);
}

std::optional<Diagnosis> FailureDetector::mismatch(const std::vector<RankView>& views) const {
  struct Side {
    std::vector<int> ranks = {};
    const Entered* entered = nullptr;
  };
  std::map<std::uint64_t, std::map<std::uint64_t, Side>> seen;  // by sequence, then by chain
  for (const RankView& view : views) {
    for_each_entered(view.state, [&](const Entered& entered) {
      if (entered.sequence == 0) return;
      Side& side = seen[entered.sequence][entered.chain];
      side.entered = &entered;
      if (side.ranks.empty() || side.ranks.back() != view.state.rank) {
        side.ranks.push_back(view.state.rank);
      }
    });
  }
  const auto first =
      std::find_if(seen.begin(), seen.end(), [](const auto& one) { return one.second.size() > 1; });
  if (first == seen.end()) return std::nullopt;
  Diagnosis diagnosis{.kind = DiagnosisKind::kMismatch,
                      .hint =
                          "compare --version on the nodes; if they agree, this is a bug in "
                          "retina-batch: please report it"};
  std::string text;
  for (const auto& [chain, side] : first->second) {
    const Operation& operation = side.entered->operation;
    text += cat(text.empty() ? "" : "; ", operation.name(), ", ", operation.describe(), " on ",
                names(side.ranks));
    // If two sides are equal, the one without rank 0 is to blame.
    const std::size_t smallest = diagnosis.ranks.size();
    if (smallest == 0 || side.ranks.size() < smallest ||
        (side.ranks.size() == smallest && !contains(side.ranks, 0))) {
      diagnosis.ranks = side.ranks;
    }
  }
  diagnosis.message =
      cat("the ranks call different collectives (number ", with_commas(first->first), " of step ",
          first->second.begin()->second.entered->step, ": ", text, ")");
  return diagnosis;
}

std::optional<Diagnosis> FailureDetector::died(const std::vector<RankView>& views,
                                               double now_s) const {
  std::vector<int> ranks;
  const RankView* first = nullptr;
  for (const RankView& view : views) {
    if (!view.gone || view.state.left != 0) continue;
    ranks.push_back(view.state.rank);
    if (first == nullptr) first = &view;
  }
  if (ranks.empty()) return std::nullopt;
  return Diagnosis{
      .kind = DiagnosisKind::kDied,
      .ranks = ranks,
      .message = cat(names(ranks), " died", last_seen(*first, now_s), awaited(views, ranks)),
      .hint = kAgain};
}

double FailureDetector::launcher_wait_s(const Diagnosis& diagnosis,
                                        const std::vector<RankView>& views) const {
  if (diagnosis.kind != DiagnosisKind::kSilent) return 0;
  const auto host = [&](int rank) { return hosts_.at(static_cast<std::size_t>(rank)); };
  // A node with another rank that still sends is not cut off: its silent rank is only stopped.
  std::set<std::string> heard;
  for (const RankView& view : views) {
    if (!contains(diagnosis.ranks, view.state.rank)) heard.insert(host(view.state.rank));
  }
  const bool is_stopped = std::all_of(diagnosis.ranks.begin(), diagnosis.ranks.end(),
                                      [&](int rank) { return heard.count(host(rank)) != 0; });
  return is_stopped ? 0 : options_.launcher_limit_s;
}

std::optional<Diagnosis> FailureDetector::left(const std::vector<RankView>& views) const {
  for (const RankView& view : views) {
    if (view.state.left == 0) continue;
    for (const RankView& other : views) {
      if (other.state.in_collective == 0 || other.state.sequence <= view.state.sequence) continue;
      return Diagnosis{
          .kind = DiagnosisKind::kLeft,
          .ranks = {view.state.rank},
          .message =
              cat(names({view.state.rank}), " ended its work early and never entered ",
                  place(*other.state.last()), ", where ", names({other.state.rank}), " waits"),
          .hint = "this is a bug in retina-batch; please report it with the command that you ran"};
    }
  }
  return std::nullopt;
}

std::optional<Diagnosis> FailureDetector::silent(const std::vector<RankView>& views,
                                                 double now_s) const {
  const auto silence = [&](const RankView& view) {
    return view.state.left != 0 ? 0 : now_s - view.heard_s;
  };
  const bool any = std::any_of(views.begin(), views.end(), [&](const RankView& view) {
    return silence(view) > silence_limit_s(view, now_s);
  });
  if (!any) return std::nullopt;
  // A node's ranks fall silent together, although their last heartbeats came at different times.
  std::vector<int> ranks;
  const RankView* first = nullptr;
  for (const RankView& view : views) {
    const double limit_s = silence_limit_s(view, now_s), few_s = 4 * options_.period_s;
    if (silence(view) <= std::min(limit_s, std::max(limit_s - few_s, few_s))) continue;
    ranks.push_back(view.state.rank);
    if (first == nullptr) first = &view;
  }
  return Diagnosis{
      .kind = DiagnosisKind::kSilent,
      .ranks = ranks,
      .message = cat(names(ranks), ranks.size() > 1 ? " are" : " is", " stopped or cut off",
                     last_seen(*first, now_s), awaited(views, ranks)),
      .hint = kRaiseTimeout};
}

bool FailureDetector::is_silent(const RankView& view, double now_s) const {
  return view.state.left == 0 && now_s - view.heard_s > 4 * options_.period_s;
}

double FailureDetector::stall_limit_s(const RankState& state) const {
  if (is_write(state.phase)) return std::numeric_limits<double>::infinity();
  if (!is_in_steps(state)) return std::max(options_.outside_timeout_s, options_.stall_timeout_s);
  if (state.median_step_s <= 0) return 5 * options_.stall_timeout_s;
  return std::max(options_.stall_timeout_s, options_.stall_steps * state.median_step_s);
}

std::optional<Diagnosis> FailureDetector::stalled(const std::vector<RankView>& views,
                                                  double now_s) const {
  const Front front = find_front(views);
  if (front.entered == nullptr) return stalled_outside(views, now_s);
  // Blames ranks that are behind and not waiting in an earlier collective themselves.
  std::vector<const RankView*> blamed;
  std::copy_if(front.behind.begin(), front.behind.end(), std::back_inserter(blamed),
               [](const RankView* view) { return view->state.in_collective == 0; });
  // All ranks are in collectives: those in the oldest one cannot get out.
  const bool all_inside = blamed.empty();
  if (all_inside) {
    const bool any_silent = std::any_of(
        views.begin(), views.end(), [&](const RankView& view) { return is_silent(view, now_s); });
    if (any_silent) return std::nullopt;  // a silent one may be missing after all
    std::uint64_t oldest = front.entered->sequence;
    for (const RankView* view : front.waiting) oldest = std::min(oldest, view->state.sequence);
    std::copy_if(front.waiting.begin(), front.waiting.end(), std::back_inserter(blamed),
                 [&](const RankView* view) { return view->state.sequence == oldest; });
  }
  // Inside, the time counts from when the last one entered; behind, without excused time.
  double limit_s = 0, excused_s = 0, still_s = 0;
  std::uint64_t entered = all_inside ? 0 : front.entered->sequence;
  for (const RankView* view : blamed) {
    entered = std::min(entered, view->state.sequence);
    limit_s = std::max(limit_s, stall_limit_s(view->state));
    excused_s = std::max(excused_s, view->state.excused_s);
    still_s = std::max(still_s, still_for_s(*view, now_s));
  }
  const double waited_s = longest_wait_s(front, entered, now_s);
  const double counted_s =
      all_inside ? all_quiet_s(views, now_s) : std::min(waited_s - excused_s, still_s);
  if (counted_s <= limit_s) return std::nullopt;
  const std::vector<int> ranks = ranks_of(blamed);
  const std::string what = all_inside
                               ? cat(names(ranks), " cannot finish ",
                                     place(*blamed[0]->state.last()), ", though no rank is missing")
                               : cat(names(ranks), " never entered ", place(*front.entered),
                                     last_seen(*blamed[0], now_s));
  return Diagnosis{.kind = DiagnosisKind::kStalled,
                   .ranks = ranks,
                   .message = cat(what, "; others have waited ", fixed(waited_s, 1), " s"),
                   .hint = kRaiseTimeout};
}

// Diagnoses a stall in which no rank waits in a collective, but nothing happens either.
std::optional<Diagnosis> FailureDetector::stalled_outside(const std::vector<RankView>& views,
                                                          double now_s) const {
  const bool others_left = std::any_of(views.begin(), views.end(),
                                       [](const RankView& view) { return view.state.left != 0; });
  for (const RankView& view : views) {
    const RankState& state = view.state;
    if (state.in_collective != 0 || state.left != 0) continue;
    if (!is_in_steps(state) && !others_left) continue;
    const double quiet_s = until_now_s(state.quiet_s, view, now_s);
    if (quiet_s <= stall_limit_s(state)) continue;
    return Diagnosis{.kind = DiagnosisKind::kStalled,
                     .ranks = {state.rank},
                     .message = cat(names({state.rank}), " has been in ", phase_name(state.phase),
                                    state.step > 0 ? cat(" of step ", state.step) : "", " for ",
                                    fixed(quiet_s, 1), " s",
                                    others_left ? "; others have ended their work" : ""),
                     .hint = kRaiseTimeout};
  }
  return std::nullopt;
}

std::vector<std::string> FailureDetector::warnings(const std::vector<RankView>& views,
                                                   double now_s) {
  std::vector<std::string> lines;
  const Front front = find_front(views);
  if (front.entered != nullptr) {
    for (const RankView* view : front.behind) {
      const RankState& state = view->state;
      const double waited_s = longest_wait_s(front, state.sequence, now_s);
      if (waited_s <= options_.straggler_warning_s) continue;
      // A silent rank is not a straggler.
      if (state.in_collective != 0 || !is_in_steps(state) || is_silent(*view, now_s) ||
          !warned_.insert({state.rank, state.sequence}).second) {
        continue;
      }
      lines.push_back(cat(names({state.rank}), " is slow: others have waited ", fixed(waited_s, 1),
                          " s for it in ", place(*front.entered), ", it is in ",
                          phase_name(state.phase)));
    }
  }
  for (const RankView& view : views) {
    const RankState& state = view.state;
    const double silent_s = state.left != 0 ? 0 : now_s - view.heard_s;
    if (silent_s > options_.straggler_warning_s &&
        warned_.insert({state.rank, ~state.sequence}).second) {
      lines.push_back(cat(names({state.rank}), " has not been heard of for ", fixed(silent_s, 1),
                          " s; after ", shortest(options_.stall_timeout_s),
                          " s (--stall-timeout) it is taken for lost"));
    }
  }
  return lines;
}

}  // namespace retina
