#include "shared/watch/watched_communicator.h"

#include <utility>

#include "shared/base/error.h"

namespace retina {
namespace {

class WatchedCommunicator : public Communicator {
 public:
  // Without a watch it reports to an activity that leads nowhere.
  WatchedCommunicator(std::unique_ptr<Communicator> inner, Watch* watch)
      : inner_(std::move(inner)),
        watch_(watch),
        own_activity_(inner_->rank()),
        activity_(watch != nullptr ? watch->activity() : own_activity_) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  int local_rank() const override { return inner_->local_rank(); }
  int local_size() const override { return inner_->local_size(); }
  const CommStats& stats() const override { return inner_->stats(); }
  Activity* activity() override { return &activity_; }
  void await_diagnosis() override {
    if (watch_ != nullptr) watch_->await_diagnosis();
  }
  void label(std::string_view name) override {
    label_ = name;
    inner_->label(name);
  }

  void all_reduce(void* data, std::size_t count, ElementType type, ReduceOp op) override {
    watched({.kind = CollectiveKind::kAllReduce, .type = type, .reduce = op, .count = count},
            [&] { inner_->all_reduce(data, count, type, op); });
  }

  void all_reduce_ordered(void* data, std::size_t count, ElementType type) override {
    watched({.kind = CollectiveKind::kAllReduceOrdered, .type = type, .count = count},
            [&] { inner_->all_reduce_ordered(data, count, type); });
  }

  void broadcast(void* data, std::size_t count, ElementType type, int root) override {
    watched({.kind = CollectiveKind::kBroadcast, .type = type, .root = root, .count = count},
            [&] { inner_->broadcast(data, count, type, root); });
  }

  std::vector<std::string> gather(const std::string& bytes, int root) override {
    std::vector<std::string> all;
    watched({.kind = CollectiveKind::kGather, .root = root},
            [&] { all = inner_->gather(bytes, root); });
    return all;
  }

  void barrier() override {
    watched({.kind = CollectiveKind::kBarrier}, [&] { inner_->barrier(); });
  }

 private:
  template <class Call>
  void watched(Operation operation, const Call& call) {
    operation.set_label(label_);
    label_.clear();
    activity_.begin(operation);
    try {
      call();
    } catch (const Error& error) {
      // MPI knows that it failed, the watch knows whose fault it is.
      if (error.kind() == ErrorKind::kRankFailure) await_diagnosis();
      throw;
    }
    activity_.end();
  }

  std::unique_ptr<Communicator> inner_;
  Watch* watch_;
  Activity own_activity_, &activity_;
  std::string label_{};
};

}  // namespace

std::unique_ptr<Communicator> make_watched_communicator(std::unique_ptr<Communicator> inner,
                                                        Watch& watch) {
  return std::make_unique<WatchedCommunicator>(std::move(inner), &watch);
}

std::unique_ptr<Communicator> make_unwatched_communicator(std::unique_ptr<Communicator> inner) {
  return std::make_unique<WatchedCommunicator>(std::move(inner), nullptr);
}

}  // namespace retina
