#include "tests/support/ranks/thread_world.h"

#include <pthread.h>

#include <algorithm>
#include <cmath>

#include "shared/base/error.h"
#include "tests/support/ranks/thread_meeting.h"

namespace retina {
namespace {

class MeetingRank : public ThreadRank {
 public:
  MeetingRank(int rank, const ThreadWorldOptions& options, std::shared_ptr<ThreadMeeting> meeting)
      : rank_(rank), ring_(options.ring), meeting_(std::move(meeting)) {
    for (const auto& fault : options.faults) {
      if (fault.rank == rank) faults_.push_back(fault);
    }
  }
  MeetingRank(const MeetingRank&) = delete;
  MeetingRank& operator=(const MeetingRank&) = delete;
  ~MeetingRank() override { meeting_->leave(rank_, cat("left after ", describe_calls())); }

  int rank() const override { return rank_; }
  int size() const override { return ring_.ranks; }
  int local_rank() const override { return rank_ - first_of_node(); }
  int local_size() const override {
    return std::min(ring_.ranks - first_of_node(), ranks_per_node());
  }

  void advance(double seconds) override {
    RETINA_CHECK(seconds >= 0 && std::isfinite(seconds), seconds);
    seconds_ += seconds;
  }
  double now_seconds() const override { return seconds_; }

  // The rank's function threw.
  void fail(const std::string& message) {
    meeting_->leave(rank_, cat("failed after ", describe_calls(), " (", message, ")"));
  }

 protected:
  void do_all_reduce(void* data, std::size_t count, ElementType type, ReduceOp op) override {
    meet({.what = {.kind = CollectiveKind::kAllReduce, .type = type, .reduce = op, .count = count},
          .data = data});
  }
  void do_all_reduce_ordered(void* data, std::size_t count, ElementType type) override {
    meet({.what = {.kind = CollectiveKind::kAllReduceOrdered, .type = type, .count = count},
          .data = data});
  }
  void do_broadcast(void* data, std::size_t count, ElementType type, int root) override {
    meet({.what = {.kind = CollectiveKind::kBroadcast, .type = type, .root = root, .count = count},
          .data = data});
  }
  std::vector<std::string> do_gather(const std::string& bytes, int root) override {
    std::vector<std::string> all;
    meet({.what = {.kind = CollectiveKind::kGather, .root = root},
          .sent = &bytes,
          .received = &all});
    return all;
  }
  void do_barrier() override { meet({.what = {.kind = CollectiveKind::kBarrier}}); }
  double clock_seconds() const override { return seconds_; }

 private:
  int ranks_per_node() const {
    return ring_.ranks_per_node == 0 ? ring_.ranks : ring_.ranks_per_node;
  }
  int first_of_node() const { return rank_ / ranks_per_node() * ranks_per_node(); }
  std::string describe_calls() const {
    return cat(calls_, calls_ == 1 ? " collective" : " collectives");
  }

  void meet(Attendance mine) {
    if (dead_) die();
    mine.sequence = calls_;
    for (const auto& fault : faults_) {
      if (fault.collective == calls_) apply(fault, mine);
    }
    mine.seconds = seconds_;
    try {
      seconds_ = meeting_->meet(rank_, mine);
    } catch (const Error&) {
      seconds_ = mine.seconds;
      throw;
    }
    ++calls_;
  }

  [[noreturn]] void die() const {
    throw Error(ErrorKind::kRankFailure,
                cat("rank ", rank_, ": died after ", describe_calls(), ", as scripted"));
  }

  void apply(const RankFault& fault, Attendance& mine) {
    switch (fault.kind) {
      case RankFault::Kind::kDie:
        dead_ = true;
        meeting_->leave(rank_, cat("died after ", describe_calls()));
        die();
      case RankFault::Kind::kStall:
        advance(fault.stall_seconds);
        break;
      case RankFault::Kind::kSwap:
        ++mine.sequence;
        break;
      case RankFault::Kind::kOtherCount:
        ++mine.what.count;
        break;
    }
  }

  const int rank_;
  const RingTopology ring_;
  const std::shared_ptr<ThreadMeeting> meeting_;
  std::vector<RankFault> faults_;
  std::int64_t calls_ = 0;
  double seconds_ = 0;
  bool dead_ = false;
};

// What a thread of `run` works on.
struct Task {
  std::unique_ptr<ThreadRank> rank = nullptr;
  const std::function<void(ThreadRank&)>* body = nullptr;
  RankOutcome outcome = {};
  pthread_t thread = {};
};

void* run_rank(void* argument) {
  auto& task = *static_cast<Task*>(argument);
  const auto fail = [&](const std::string& message) {
    task.outcome.failure = std::current_exception();
    task.outcome.message = message;
    static_cast<MeetingRank&>(*task.rank).fail(message);
  };
  try {
    (*task.body)(*task.rank);
  } catch (const std::exception& error) {
    fail(error.what());
  } catch (...) {
    fail("unknown exception");
  }
  task.outcome.seconds = task.rank->now_seconds();
  task.outcome.stats = task.rank->stats();
  task.rank.reset();  // now, not when all threads have ended: others may wait for this rank
  return nullptr;
}

}  // namespace

ThreadWorld::ThreadWorld(const ThreadWorldOptions& options)
    : options_(options),
      meeting_(std::make_shared<ThreadMeeting>(options)),
      taken_(static_cast<std::size_t>(options.ring.ranks)) {
  RETINA_CHECK(options.ring.ranks >= 1, options.ring.ranks);
  RETINA_CHECK(options.ring.ranks_per_node >= 0, options.ring.ranks_per_node);
  for (const auto& fault : options.faults) {
    RETINA_CHECK(fault.rank >= 0 && fault.rank < options.ring.ranks, "fault of rank ", fault.rank);
  }
}

ThreadWorld::~ThreadWorld() = default;

std::unique_ptr<ThreadRank> ThreadWorld::take(int rank) {
  RETINA_CHECK(rank >= 0 && rank < options_.ring.ranks, rank);
  RETINA_CHECK(!taken_[static_cast<std::size_t>(rank)], "rank ", rank, " is taken");
  taken_[static_cast<std::size_t>(rank)] = true;
  return std::make_unique<MeetingRank>(rank, options_, meeting_);
}

std::vector<RankOutcome> ThreadWorld::run(const std::function<void(ThreadRank&)>& body) {
  std::vector<Task> tasks(static_cast<std::size_t>(options_.ring.ranks));
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    tasks[i].rank = take(static_cast<int>(i));
    tasks[i].body = &body;
  }
  std::size_t started = 0;
  while (started < tasks.size() &&
         pthread_create(&tasks[started].thread, nullptr, run_rank, &tasks[started]) == 0) {
    ++started;
  }
  // Ranks without a thread leave, or the others would wait for them.
  for (std::size_t i = started; i < tasks.size(); ++i) tasks[i].rank.reset();
  for (std::size_t i = 0; i < started; ++i) pthread_join(tasks[i].thread, nullptr);
  if (started < tasks.size()) {
    throw Error(
        ErrorKind::kUnavailable,
        cat("threads: the machine has too few (got ", started, ", want ", tasks.size(), ")"),
        "raise the limit of processes (ulimit -u) or take fewer ranks");
  }
  std::vector<RankOutcome> outcomes;
  for (auto& task : tasks) outcomes.push_back(std::move(task.outcome));
  return outcomes;
}

}  // namespace retina
