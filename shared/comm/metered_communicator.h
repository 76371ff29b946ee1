// The frame of a back end: checks the arguments, calls the back end, counts calls, bytes and time.
#pragma once

#include <string>
#include <vector>

#include "shared/comm/communicator.h"

namespace retina {

class MeteredCommunicator : public Communicator {
 public:
  using Communicator::broadcast;
  void all_reduce(void* data, std::size_t count, ElementType type, ReduceOp op) final;
  void all_reduce_ordered(void* data, std::size_t count, ElementType type) final;
  void broadcast(void* data, std::size_t count, ElementType type, int root) final;
  std::vector<std::string> gather(const std::string& bytes, int root) final;
  void barrier() final;
  const CommStats& stats() const final { return stats_; }

 protected:
  // The collectives of communicator.h, with arguments that were checked.
  virtual void do_all_reduce(void* data, std::size_t count, ElementType type, ReduceOp op) = 0;
  virtual void do_all_reduce_ordered(void* data, std::size_t count, ElementType type) = 0;
  virtual void do_broadcast(void* data, std::size_t count, ElementType type, int root) = 0;
  virtual std::vector<std::string> do_gather(const std::string& bytes, int root) = 0;
  virtual void do_barrier() = 0;
  // The clock of `stats()`; here the machine's monotonic one.
  virtual double clock_seconds() const;

 private:
  template <class F>
  void meter(OperationStats& stats, std::size_t bytes, const F& call);
  void check_root(int root) const;

  CommStats stats_;
};

}  // namespace retina
