#include "tests/support/ranks/thread_meeting.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

#include "shared/base/error.h"
#include "shared/comm/element_loops.h"

namespace retina {
namespace {

// "rank 3", "ranks 0-2, 5": `ranks` ascending, not empty.
std::string describe_ranks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (i > 0) text += ", ";
    text += cat(ranks[i]);
    if (last > i) text += cat("-", ranks[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace

ThreadMeeting::ThreadMeeting(const ThreadWorldOptions& options)
    : ring_(options.ring),
      deadline_seconds_(options.deadline_seconds),
      places_(static_cast<std::size_t>(options.ring.ranks)),
      away_(options.ring.ranks) {}

double ThreadMeeting::meet(int rank, Attendance& mine) {
  std::unique_lock lock(mutex_);
  if (!failure_.empty()) throw_failure(mine);
  Place& place = places_[static_cast<std::size_t>(rank)];
  RETINA_CHECK(place.state == State::kAway, "rank ", rank, " has left or is used by two threads");
  place.state = State::kHere;
  place.attendance = mine;
  --away_;
  ++here_;
  const std::int64_t number = finished_;
  conclude_if_settled();
  changed_.wait(lock, [&] { return finished_ != number || !failure_.empty(); });
  // A collective that finished did so for everyone, whatever fails later. The next one cannot
  // finish before this rank has come, so `end_seconds_` is still this one's, unless a failure moved
  // it: no failure is declared either before this rank is back or gone.
  if (finished_ == number) throw_failure(mine);
  return end_seconds_;
}

void ThreadMeeting::leave(int rank, const std::string& how) {
  const std::lock_guard lock(mutex_);
  Place& place = places_[static_cast<std::size_t>(rank)];
  if (place.state == State::kGone) return;
  (place.state == State::kAway ? away_ : here_) -= 1;
  place.state = State::kGone;
  place.how_gone = how;
  conclude_if_settled();
}

// Only when it is known of every rank whether it comes: so the outcome does not depend on timing.
void ThreadMeeting::conclude_if_settled() {
  if (away_ > 0 || here_ == 0 || !failure_.empty()) return;
  try {
    if (const auto text = missing(); !text.empty()) return fail(text, latest_entry());
    if (const auto text = disagreement(); !text.empty()) return fail(text, latest_entry());
    if (const auto text = lateness(); !text.empty()) {
      return fail(text, first_entry() + deadline_seconds_);
    }
    transfer();
  } catch (const std::exception& error) {  // no memory: the other ranks must not wait for this one
    return fail(cat(subject(), ": ", error.what()), latest_entry());
  }
  end_seconds_ = latest_entry() + cost_seconds();
  for (auto& place : places_) place.state = State::kAway;
  away_ = static_cast<int>(places_.size());
  here_ = 0;
  ++finished_;
  changed_.notify_all();
}

void ThreadMeeting::fail(const std::string& message, double seconds) {
  failure_ = message;
  end_seconds_ = seconds;
  changed_.notify_all();
}

void ThreadMeeting::throw_failure(Attendance& mine) const {
  mine.seconds = std::max(mine.seconds, end_seconds_);
  throw Error(ErrorKind::kRankFailure, failure_, "run the same command again");
}

std::string ThreadMeeting::subject() const {
  for (const auto& place : places_) {
    if (place.state == State::kHere) {
      return cat("collective ", finished_, ", ", place.attendance.what.describe());
    }
  }
  return cat("collective ", finished_);
}

std::string ThreadMeeting::missing() const {
  std::map<std::string, std::vector<int>> gone;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].state == State::kGone) {
      gone[places_[i].how_gone].push_back(static_cast<int>(i));
    }
  }
  std::string list;
  for (const auto& [how, ranks] : gone) {
    list += cat(list.empty() ? "" : "; ", describe_ranks(ranks), " ", how);
  }
  return list.empty() ? "" : cat(subject(), ": ", list);
}

std::string ThreadMeeting::disagreement() const {
  std::map<std::string, std::vector<int>> sides;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const Attendance& came = places_[i].attendance;
    std::string call = came.what.describe();
    // A faulty rank may say a count where there is none.
    const bool takes_count =
        came.what.kind != CollectiveKind::kGather && came.what.kind != CollectiveKind::kBarrier;
    if (!takes_count && came.what.count != 0) call += cat(" of ", came.what.count);
    if (came.sequence != finished_) call += cat(" as collective ", came.sequence);
    sides[call].push_back(static_cast<int>(i));
  }
  if (sides.size() == 1) return "";
  // The side with the most ranks is taken for right; of equal ones that with the lowest rank.
  const auto right = std::max_element(sides.begin(), sides.end(), [](const auto& a, const auto& b) {
    if (a.second.size() != b.second.size()) return a.second.size() < b.second.size();
    return a.second.front() > b.second.front();
  });
  std::string others;
  for (auto side = sides.begin(); side != sides.end(); ++side) {
    if (side == right) continue;
    others += cat(others.empty() ? "" : "; ", side->first, " from ", describe_ranks(side->second));
  }
  return cat("collective ", finished_, ": ranks call different operations (got ", others, ", want ",
             right->first, " as from ", describe_ranks(right->second), ")");
}

std::string ThreadMeeting::lateness() const {
  if (deadline_seconds_ <= 0) return "";
  const double first = first_entry();
  std::vector<int> firsts, late;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const double seconds = places_[i].attendance.seconds;
    if (seconds <= first) firsts.push_back(static_cast<int>(i));
    if (seconds > first + deadline_seconds_) late.push_back(static_cast<int>(i));
  }
  if (late.empty()) return "";
  return cat(subject(), ": ", describe_ranks(late), " came late (got ",
             fixed(latest_entry() - first, 1), " s after ", describe_ranks(firsts),
             ", want at most ", fixed(deadline_seconds_, 1), " s)");
}

double ThreadMeeting::first_entry() const {
  double first = std::numeric_limits<double>::infinity();
  for (const auto& place : places_) {
    if (place.state == State::kHere) first = std::min(first, place.attendance.seconds);
  }
  return first;
}

double ThreadMeeting::latest_entry() const {
  double latest = 0;
  for (const auto& place : places_) {
    if (place.state == State::kHere) latest = std::max(latest, place.attendance.seconds);
  }
  return latest;
}

double ThreadMeeting::cost_seconds() const {
  const Operation& what = places_.front().attendance.what;
  const auto bytes = static_cast<double>(what.bytes());
  switch (what.kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kAllReduceOrdered:
      return all_reduce_seconds(ring_, bytes);
    case CollectiveKind::kBroadcast:
      return broadcast_seconds(ring_, bytes);
    case CollectiveKind::kGather: {
      double all = 0;
      for (const auto& place : places_) all += static_cast<double>(place.attendance.sent->size());
      return gather_seconds(ring_, all);
    }
    case CollectiveKind::kBarrier:
      break;
  }
  return broadcast_seconds(ring_, 0);
}

void ThreadMeeting::transfer() {
  const Operation& what = places_.front().attendance.what;
  const std::size_t bytes = what.bytes();
  const auto root = static_cast<std::size_t>(what.root);
  if (what.kind == CollectiveKind::kGather) {
    auto& all = *places_[root].attendance.received;
    for (const auto& place : places_) all.push_back(*place.attendance.sent);
  }
  if (bytes == 0) return;  // gather and barrier too: a buffer may be null
  if (what.kind != CollectiveKind::kBroadcast) {
    std::vector<const void*> inputs;
    for (const auto& place : places_) inputs.push_back(place.attendance.data);
    reduce_in_order(inputs, places_[root].attendance.data, what.count, what.type, what.reduce);
  }
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (i == root) continue;
    std::memcpy(places_[i].attendance.data, places_[root].attendance.data, bytes);
  }
}

}  // namespace retina
