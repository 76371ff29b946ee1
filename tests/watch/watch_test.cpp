#include "shared/watch/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shared/base/error.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using ::testing::MatchesRegex;

// Rank 0 of some whose sums fail, as when another rank dies while the ranks find each other.
class FailingCommunicator : public Communicator {
 public:
  explicit FailingCommunicator(int size = 2) : size_(size) {}
  int rank() const override { return 0; }
  int size() const override { return size_; }
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

 private:
  const int size_;
};

TEST(Watch, PassesOnAnErrorThatEndsItsStart) {
  const TestFolder folder;
  FailingCommunicator communicator;
  WatchOptions options;
  options.folder = folder.path();
  EXPECT_THROW(Watch::start(communicator, options, {}), Error);
}

TEST(Watch, SaysWhereMoreOpenFilesAreNeededThanRankZeroMayHave) {
  const TestFolder folder;
  FailingCommunicator communicator(1 << 30);
  WatchOptions options;
  options.folder = folder.path();
  std::string warning;
  const WatchHandler handler{.report = {},
                             .warn = [&](const std::string& line) { warning = line; },
                             .end_launcher = {},
                             .end = {}};
  EXPECT_THROW(Watch::start(communicator, options, handler), Error);
  EXPECT_THAT(warning, MatchesRegex("rank 0 may open [0-9]+ files, to watch 1073741824 ranks it "
                                    "needs 1073741952; hint: raise its hard limit: `ulimit -Hn`"));
}

}  // namespace
}  // namespace retina
