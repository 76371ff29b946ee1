#include "shared/comm/activity.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/hash.h"

namespace retina {
namespace {

constexpr std::string_view kPhaseNames[] = {
    "start",  "data.wait", "data.decode",      "forward", "backward",     "reduce",
    "update", "validate",  "checkpoint.write", "end",     "metrics.write"};

constexpr std::string_view kKindNames[] = {"all_reduce", "broadcast", "gather", "barrier",
                                           "all_reduce_ordered"};
using Seconds = std::chrono::duration<double>;

// Minimum for a median: earlier steps are slower, with cold caches and algorithms still being
// tried.
constexpr std::size_t kStepsForMedian = 4;

// Looks up a name by a number that may come from another process.
template <class Enum, std::size_t Count>
std::string_view name_of(Enum value, const std::string_view (&names)[Count]) {
  const auto place = static_cast<std::size_t>(value);
  return place < Count ? names[place] : "unknown";
}

}  // namespace

std::string_view phase_name(Phase phase) {
  return name_of(phase, kPhaseNames);
}

bool is_of_step(Phase phase) {
  return phase >= Phase::kDataWait && phase <= Phase::kUpdate;
}

bool is_write(Phase phase) {
  return phase == Phase::kCheckpointWrite || phase == Phase::kMetricsWrite;
}

void Operation::set_label(std::string_view text) {
  label.fill('\0');
  std::copy_n(text.begin(), std::min(text.size(), label.size() - 1), label.begin());
}

std::string_view Operation::label_text() const {
  return {label.data(), ::strnlen(label.data(), label.size())};
}

std::uint64_t Operation::hash() const {
  const std::uint64_t fields[] = {static_cast<std::uint64_t>(kind),
                                  static_cast<std::uint64_t>(type),
                                  static_cast<std::uint64_t>(reduce),
                                  static_cast<std::uint64_t>(root),
                                  count,
                                  xxh3(label_text())};
  return xxh3(fields, sizeof(fields));
}

std::string Operation::name() const {
  return std::string(label_text().empty() ? name_of(kind, kKindNames) : label_text());
}

std::string Operation::describe() const {
  std::string text(name_of(kind, kKindNames));
  if (kind == CollectiveKind::kAllReduce) text += reduce == ReduceOp::kSum ? " (sum)" : " (max)";
  if (kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kGather)
    text += cat(" (root ", root, ")");
  if (kind != CollectiveKind::kGather && kind != CollectiveKind::kBarrier)
    text += cat(" of ", with_commas(count), " ", element_short_name(type));
  return text;
}

std::string with_commas(std::uint64_t value) {
  std::string text = std::to_string(value);
  for (std::size_t place = text.size(); place > 3; place -= 3) text.insert(place - 3, ",");
  return text;
}

Activity::Activity(int rank) {
  state_.rank = rank;
}

Phase Activity::enter(Phase phase) {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (!is_of_step(state_.phase)) {
    state_.excused_s += Seconds(now - std::max(phase_since_, collective_end_)).count();
  }
  const Phase before = std::exchange(state_.phase, phase);
  phase_since_ = changed_ = now;
  return before;
}

void Activity::set_step(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  changed_ = Clock::now();
  if (step_since_) {
    step_seconds_[step_count_++ % step_seconds_.size()] = Seconds(changed_ - *step_since_).count();
  }
  step_since_ = changed_;
  state_.step = step;
}

void Activity::begin(const Operation& operation) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t parts[] = {state_.recent[0].chain, operation.hash()};
  std::shift_right(state_.recent.begin(), state_.recent.end(), 1);
  Entered& now = state_.recent[0];
  now = {.sequence = ++state_.sequence,
         .chain = xxh3(parts, sizeof(parts)),
         .step = state_.step,
         .operation = operation};
  if (state_.sequence % RankState::kMarkEvery == 0) {
    state_.marks[1] = state_.marks[0];
    state_.marks[0] = now;
  }
  state_.in_collective = 1;
  collective_since_ = changed_ = Clock::now();
}

void Activity::end() {
  const std::lock_guard lock(mutex_);
  state_.in_collective = 0;
  state_.excused_s = 0;
  changed_ = collective_end_ = Clock::now();
}

void Activity::leave() {
  enter(Phase::kEnd);
  const std::lock_guard lock(mutex_);
  state_.left = 1;
}

void Activity::exclude_gap(double gap_s) {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  const auto gap = std::chrono::duration_cast<Clock::duration>(Seconds(gap_s));
  // A thread's activity since it resumed is no older than that.
  const auto shift = [&](Clock::time_point& time) { time = std::min(time + gap, now); };
  shift(phase_since_);
  shift(changed_);
  shift(collective_since_);
  shift(collective_end_);
  if (step_since_) shift(*step_since_);
}

RankState Activity::state() const {
  const std::lock_guard lock(mutex_);
  RankState copy = state_;
  const Clock::time_point now = Clock::now();
  copy.in_phase_s = Seconds(now - phase_since_).count();
  copy.quiet_s = Seconds(now - changed_).count();
  if (state_.in_collective != 0) copy.in_collective_s = Seconds(now - collective_since_).count();
  if (step_count_ >= kStepsForMedian) {
    std::array<double, 32> sorted = step_seconds_;
    const auto count = static_cast<std::ptrdiff_t>(std::min(step_count_, sorted.size()));
    std::nth_element(sorted.begin(), sorted.begin() + count / 2, sorted.begin() + count);
    copy.median_step_s = sorted[static_cast<std::size_t>(count / 2)];
  }
  return copy;
}

}  // namespace retina
