#include "shared/watch/watch.h"

#include <gtest/gtest.h>

#include "shared/base/error.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

// Rank 0 of two whose sums fail, as when the other rank dies while the ranks find each other.
class FailingCommunicator : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  int local_rank() const override { return 0; }
  int local_size() const override { return 2; }

 protected:
  void do_all_reduce(void*, std::size_t, ElementType, ReduceOp) override {
    throw Error(ErrorKind::kRankFailure, "rank 1 is gone");
  }
  void do_all_reduce_ordered(void*, std::size_t, ElementType) override {}
  void do_broadcast(void*, std::size_t, ElementType, int) override {}
  std::vector<std::string> do_gather(const std::string& bytes, int) override {
    return {bytes, bytes};
  }
  void do_barrier() override {}
};

TEST(Watch, PassesOnAnErrorThatEndsItsStart) {
  const TestFolder folder;
  FailingCommunicator communicator;
  WatchOptions options;
  options.folder = folder.path();
  EXPECT_THROW(Watch::start(communicator, options, {}), Error);
}

}  // namespace
}  // namespace retina
