#include "tests/support/ranks/thread_world.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "shared/base/error.h"
#include "shared/comm/activity.h"
#include "shared/comm/element_loops.h"

namespace retina {
// Where ranks meet: one collective at a time, finished by the rank that comes last.
class ThreadMeeting {
 public:
  // What a rank brings to a collective. The pointers stay valid until `meet` returns.
  struct Attendance {
    Operation what = {};
    void* data = nullptr;
    const std::string* sent = nullptr;             // gather
    std::vector<std::string>* received = nullptr;  // gather, on the root
  };

  explicit ThreadMeeting(int ranks) : places_(static_cast<std::size_t>(ranks)), away_(ranks) {}

  void meet(int rank, const Attendance& mine) {
    std::unique_lock lock(mutex_);
    if (!failure_.empty()) throw_failure();
    Place& place = places_[static_cast<std::size_t>(rank)];
    RETINA_CHECK(place.state == State::kAway, "rank ", rank, " has left or is used by two threads");
    place = {.state = State::kHere, .attendance = mine};
    --away_;
    ++here_;
    const std::int64_t number = finished_;
    conclude_if_settled();
    changed_.wait(lock, [&] { return finished_ != number || !failure_.empty(); });
    // A collective that finished did so for everyone, whatever fails later.
    if (finished_ == number) throw_failure();
  }

  // Rank `rank` will not come again, as it left or died; later calls for it change nothing.
  void leave(int rank, const std::string& how) {
    const std::lock_guard lock(mutex_);
    Place& place = places_[static_cast<std::size_t>(rank)];
    if (place.state == State::kGone) return;
    --(place.state == State::kAway ? away_ : here_);
    place.state = State::kGone;
    lost_ += cat(lost_.empty() ? "" : "; ", "rank ", rank, " ", how);
    conclude_if_settled();
  }

 private:
  enum class State { kAway, kHere, kGone };
  struct Place {
    State state = State::kAway;
    Attendance attendance = {};
  };

  // Only when it is known of every rank whether it comes: the outcome does not depend on timing.
  void conclude_if_settled() {
    if (away_ > 0 || here_ == 0 || !failure_.empty()) return;
    failure_ = problem();
    if (failure_.empty()) {
      transfer();
      for (Place& place : places_) place.state = State::kAway;
      away_ = std::exchange(here_, 0);
      ++finished_;
    }
    changed_.notify_all();
  }

  std::string problem() const {
    if (!lost_.empty()) return cat("collective ", finished_, ": ", lost_);
    const std::string first = places_[0].attendance.what.describe();
    for (std::size_t i = 1; i < places_.size(); ++i) {
      const std::string own = places_[i].attendance.what.describe();
      if (own != first) return cat("rank ", i, " calls ", own, ", where rank 0 calls ", first);
    }
    return "";
  }

  void transfer() {
    const Operation& what = places_[0].attendance.what;
    const auto root = static_cast<std::size_t>(what.root);
    if (what.kind == CollectiveKind::kGather) {
      for (const Place& place : places_) {
        places_[root].attendance.received->push_back(*place.attendance.sent);
      }
    }
    if (what.bytes() == 0) return;  // gather and barrier too: a buffer may be null
    void* const result = places_[root].attendance.data;
    if (what.kind != CollectiveKind::kBroadcast) {
      std::vector<const void*> inputs;
      for (const Place& place : places_) inputs.push_back(place.attendance.data);
      reduce_in_order(inputs, result, what.count, what.type, what.reduce);
    }
    for (const Place& place : places_) {
      if (place.attendance.data != result) {
        std::memcpy(place.attendance.data, result, what.bytes());
      }
    }
  }

  [[noreturn]] void throw_failure() const {
    throw Error(ErrorKind::kRankFailure, failure_, "run the same command again");
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Place> places_;
  int away_, here_ = 0;  // ranks that are neither here nor gone, and that wait
  std::int64_t finished_ = 0;
  std::string lost_, failure_;
};

namespace {

class MeetingRank : public Communicator {
 public:
  MeetingRank(int rank, const ThreadWorldOptions& options, std::shared_ptr<ThreadMeeting> meeting)
      : rank_(rank), options_(options), meeting_(std::move(meeting)) {}
  MeetingRank(const MeetingRank&) = delete;
  MeetingRank& operator=(const MeetingRank&) = delete;
  ~MeetingRank() override { meeting_->leave(rank_, "left"); }

  int rank() const override { return rank_; }
  int size() const override { return options_.ring.ranks; }
  int local_rank() const override { return rank_ % ranks_per_node(); }
  int local_size() const override {
    return std::min(size() - rank_ + local_rank(), ranks_per_node());
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

 private:
  int ranks_per_node() const {
    return options_.ring.ranks_per_node == 0 ? size() : options_.ring.ranks_per_node;
  }

  void meet(const ThreadMeeting::Attendance& mine) {
    for (const RankFault& fault : options_.faults) {
      if (fault.rank != rank_ || calls_ < fault.collective) continue;
      meeting_->leave(rank_, "died");
      throw Error(ErrorKind::kRankFailure, cat("rank ", rank_, ": died, as scripted"));
    }
    meeting_->meet(rank_, mine);
    ++calls_;
  }

  const int rank_;
  const ThreadWorldOptions options_;
  const std::shared_ptr<ThreadMeeting> meeting_;
  std::int64_t calls_ = 0;
};

}  // namespace

ThreadWorld::ThreadWorld(const ThreadWorldOptions& options)
    : options_(options), meeting_(std::make_shared<ThreadMeeting>(options.ring.ranks)) {}

std::unique_ptr<ThreadRank> ThreadWorld::take(int rank) {
  return std::make_unique<MeetingRank>(rank, options_, meeting_);
}

std::vector<RankOutcome> ThreadWorld::run(const std::function<void(ThreadRank&)>& body) {
  const auto count = static_cast<std::size_t>(options_.ring.ranks);
  std::vector<RankOutcome> outcomes(count);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&body, &outcome = outcomes[i], rank = take(static_cast<int>(i))] {
      try {
        body(*rank);
      } catch (const std::exception& error) {
        outcome.failure = std::current_exception();
        outcome.message = error.what();
      }
      outcome.stats = rank->stats();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

}  // namespace retina
