// The watch threads in one process, over the loopback: real sockets, real threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <mutex>
#include <thread>

#include "shared/base/cat.h"
#include "shared/watch/watch_loop.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t kJob = 77;
constexpr int kSize = 3;

// One rank's watch, with a handler that notes what it is told.
struct Rank {
  Rank(int rank, int size, const std::string& folder) : activity(rank) {
    context.options.folder = folder;
    context.options.stall_timeout_s = 1;
    context.options.second_s = 0.5;
    context.options.launcher_limit_s = 0.5;
    context.options.period_s = 0.05;
    context.handler = {.report =
                           [this](const std::string& message, const std::string&) {
                             const std::lock_guard lock(mutex);
                             lines.push_back(message);
                           },
                       .warn = [](const std::string&) {},
                       .end_launcher =
                           [this] {
                             const std::lock_guard lock(mutex);
                             lines.push_back("launcher");
                           },
                       .end = [this](int code) { ended.set_value(code); }};
    context.rank = rank;
    context.size = size;
    context.job = kJob;
    context.wake = Descriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    context.activity = &activity;
  }
  ~Rank() { stop(); }

  void run(std::unique_ptr<WatchLoop> own) {
    loop = std::move(own);
    thread = std::thread([this] { loop->run(); });
  }
  void join(std::uint16_t port) {
    auto connection = join_hub(context, {"127.0.0.1"}, port);
    ASSERT_TRUE(connection);
    run(std::make_unique<Spoke>(context, std::move(*connection)));
  }
  void stop() {
    context.stop = true;
    if (thread.joinable()) thread.join();
  }
  // The exit code that the watch ended this rank with, or -1 within `limit_s`.
  int code(double limit_s = 10) {
    auto future = ended.get_future();
    const auto limit = std::chrono::duration<double>(limit_s);
    return future.wait_for(limit) == std::future_status::ready ? future.get() : -1;
  }
  std::vector<std::string> told() {
    const std::lock_guard lock(mutex);
    return lines;
  }

  Activity activity;
  WatchContext context{};
  std::mutex mutex;
  std::vector<std::string> lines;
  std::promise<int> ended;
  std::unique_ptr<WatchLoop> loop;
  std::thread thread;
};

Operation barrier() {
  return {.kind = CollectiveKind::kBarrier};
}

class WatchThreads : public ::testing::Test {
 protected:
  void SetUp() override {
    Listener listener = listen_anywhere();
    port_ = listener.port;
    for (std::size_t rank = 0; rank < hosts().size(); ++rank) {
      ranks_.push_back(std::make_unique<Rank>(static_cast<int>(rank),
                                              static_cast<int>(hosts().size()), folder_.path()));
      ranks_.back()->context.hosts = hosts();
    }
    ranks_[0]->run(std::make_unique<Hub>(ranks_[0]->context, std::move(listener.socket)));
  }

  virtual std::vector<std::string> hosts() const {
    return std::vector<std::string>(kSize, "node-a");
  }
  void join_all() {
    for (std::size_t rank = 1; rank < ranks_.size(); ++rank) ranks_[rank]->join(port_);
    ranks_[0]->context.all_joined = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  // They die at once: their loops stop without having left.
  void kill(std::size_t first, std::size_t count) {
    for (std::size_t rank = first; rank < first + count; ++rank) ranks_[rank]->context.stop = true;
    for (std::size_t rank = first; rank < first + count; ++rank) ranks_[rank]->stop();
  }
  void expect_silence_of_all_but(std::size_t reporter) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (rank == reporter) continue;
      EXPECT_THAT(ranks_[rank]->told(), IsEmpty()) << rank;
    }
  }

  const TestFolder folder_;
  std::uint16_t port_ = 0;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

class WatchThreadsOnNodes : public WatchThreads {
 protected:
  std::vector<std::string> hosts() const override { return {"node-a", "node-b", "node-c"}; }
};

TEST_F(WatchThreads, AStrangerIsCutOffAndTheJobGoesOn) {
  for (const std::string& words :
       {std::string("GET / HTTP/1.1\r\n\r\n"),
        encode(FrameType::kHello, Greeting{.token = kJob + 1, .rank = 1, .size = kSize}),
        encode(FrameType::kHello, Greeting{.token = kJob, .rank = kSize, .size = kSize}),
        encode(FrameType::kEnd, EndNotice{.exit_code = 1})}) {
    auto socket = connect_to("127.0.0.1", port_, 1);
    ASSERT_TRUE(socket);
    Connection stranger(std::move(*socket));
    stranger.send(words);
    for (int i = 0; i < 1000 && !stranger.ended(); ++i) {
      EXPECT_THAT(stranger.receive(), IsEmpty());
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_TRUE(stranger.ended());
  }
  EXPECT_THAT(ranks_[0]->told(), IsEmpty());
  EXPECT_FALSE(ranks_[0]->context.stop);
}

TEST_F(WatchThreads, ARankThatGreetsAgainIsWelcomeOnceItsFirstConnectionHasEnded) {
  { ASSERT_TRUE(join_hub(ranks_[1]->context, {"127.0.0.1"}, port_)); }
  EXPECT_TRUE(join_hub(ranks_[1]->context, {"127.0.0.1"}, port_));
}

TEST_F(WatchThreads, ARankGreetsUntilTheHubAnswers) {
  Listener listener = listen_anywhere();
  std::thread slow([&] {
    for (int i = 0; i < 5; ++i) {
      struct pollfd wait {
        .fd = listener.socket.get(), .events = POLLIN, .revents = 0
      };
      ::poll(&wait, 1, 10000);
      const Descriptor cut(::accept(listener.socket.get(), nullptr, nullptr));
    }
    ranks_[0]->stop();
    ranks_[0]->context.stop = false;
    ranks_[0]->run(std::make_unique<Hub>(ranks_[0]->context, std::move(listener.socket)));
  });
  EXPECT_TRUE(join_hub(ranks_[1]->context, {"127.0.0.1"}, listener.port));
  slow.join();
}

TEST_F(WatchThreads, ARankGivesUpSoonWhereNobodyListens) {
  std::uint16_t closed = 0;
  { closed = listen_anywhere().port; }
  EXPECT_FALSE(join_hub(ranks_[1]->context, {"127.0.0.1"}, closed));
}

TEST_F(WatchThreads, ARankThatDiesBeforeItsFirstHeartbeatIsReported) {
  {
    ASSERT_TRUE(join_hub(ranks_[2]->context, {"127.0.0.1"}, port_));
    ranks_[0]->context.all_joined = true;
  }
  EXPECT_EQ(ranks_[0]->code(), 76);
  ASSERT_EQ(ranks_[0]->told().size(), 1U);
  EXPECT_THAT(ranks_[0]->told()[0], HasSubstr("rank 2 (node-a) died"));
}

TEST_F(WatchThreads, ADeadSpokeEndsAllWithOneLine) {
  join_all();
  kill(2, 1);
  EXPECT_EQ(ranks_[0]->code(), 76);
  EXPECT_EQ(ranks_[1]->code(), 76);
  ASSERT_EQ(ranks_[0]->told().size(), 1U);
  EXPECT_THAT(ranks_[0]->told()[0], HasSubstr("rank 2 (node-a) died"));
  expect_silence_of_all_but(0);
}

// Even one that has left, until the others have, too.
TEST_F(WatchThreads, ADeadHubIsReportedByTheLowestRankAlone) {
  join_all();
  ranks_[0]->activity.leave();
  kill(0, 1);
  EXPECT_EQ(ranks_[1]->code(), 76);
  EXPECT_EQ(ranks_[2]->code(), 76);
  ASSERT_EQ(ranks_[1]->told().size(), 1U);
  EXPECT_THAT(ranks_[1]->told()[0], HasSubstr("rank 0 (node-a) died"));
  expect_silence_of_all_but(1);
}

TEST_F(WatchThreadsOnNodes, ASilentNodeCostsTheLauncherAsWell) {
  WatchContext& mute = ranks_[1]->context;
  auto connection = join_hub(mute, {"127.0.0.1"}, port_);
  ASSERT_TRUE(connection);
  connection->send(encode(FrameType::kState, mute.activity->state()));  // and nothing more
  EXPECT_EQ(ranks_[0]->code(), 76);
  const auto told = ranks_[0]->told();
  ASSERT_EQ(told.size(), 2U);
  EXPECT_THAT(told[0], HasSubstr("rank 1 (node-b) is stopped or cut off"));
  EXPECT_EQ(told[1], "launcher");
}

TEST_F(WatchThreads, LeavingIsOverWhenAllHaveLeft) {
  join_all();
  for (const auto& rank : ranks_) {
    rank->activity.begin(barrier());
    rank->activity.end();
    EXPECT_FALSE(rank->context.all_left);
    rank->activity.leave();
  }
  for (const auto& rank : ranks_) rank->context.all_left.wait(false);
  for (const auto& rank : ranks_) rank->stop();
  for (const auto& rank : ranks_) EXPECT_THAT(rank->told(), IsEmpty());
}

TEST_F(WatchThreads, AnErrorThatOneRankReportedEndsTheOthersInSilenceWithItsCode) {
  join_all();
  ranks_[2]->context.failing = 74;
  EXPECT_EQ(ranks_[1]->code(), 74);
  EXPECT_EQ(ranks_[0]->code(), 74);
  for (const auto& rank : ranks_) EXPECT_THAT(rank->told(), IsEmpty());
}

// Nodes of eight ranks.
class ManyWatchThreads : public WatchThreads {
 protected:
  std::vector<std::string> hosts() const override {
    std::vector<std::string> hosts;
    for (int rank = 0; rank < 128; ++rank) hosts.push_back(cat("node-", rank / 8));
    return hosts;
  }
};

TEST_F(ManyWatchThreads, ALostNodeIsReportedOnceAndAllOthersEnd) {
  join_all();
  kill(64, 8);
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (rank >= 64 && rank < 72) continue;
    EXPECT_EQ(ranks_[rank]->code(), 76) << rank;
  }
  ASSERT_EQ(ranks_[0]->told().size(), 1U);
  EXPECT_THAT(ranks_[0]->told()[0], HasSubstr(" (node-8) died"));
  expect_silence_of_all_but(0);
}

// The lowest rank that the hub heard is lost with it: one on another node reports, before all do.
TEST_F(ManyWatchThreads, TheHubsNodeIsReportedFromAnother) {
  for (const auto& rank : ranks_) rank->context.options.second_s = 6;
  join_all();
  kill(0, 8);
  EXPECT_EQ(ranks_[8]->code(5.5), 76);
  ASSERT_EQ(ranks_[8]->told().size(), 1U);
  EXPECT_THAT(ranks_[8]->told()[0], HasSubstr("rank 0 (node-0) died"));
  expect_silence_of_all_but(8);
}

}  // namespace
}  // namespace retina
