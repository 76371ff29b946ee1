// train/reduce/nccl_communicator.cpp, compiled against fake_nccl.h: what it waits for and how it
// ends, on several ranks, without a GPU.
#include "train/reduce/nccl_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <chrono>
#include <numeric>

#include "shared/base/error.h"
#include "shared/comm/element_loops.h"
#include "tests/support/ranks/thread_world.h"
#include "tests/train/nccl/fake_nccl.h"

namespace retina {
namespace {

using testing::HasSubstr;
using Values = std::vector<float>;

constexpr double kStartSeconds = 0.3;  // long for threads of one process

std::unique_ptr<NcclCommunicator> join(Communicator& host) {
  return make_nccl_communicator(host, 0, kStartSeconds);
}

// The same on every run: small whole numbers, whose sums every order gives alike.
Values values_of(int rank, std::size_t count) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 13) % 101);
  }
  return values;
}

Values sum_of(int ranks, std::size_t count) {
  Values sum(count, 0);
  for (int rank = 0; rank < ranks; ++rank) {
    const Values values = values_of(rank, count);
    for (std::size_t i = 0; i < count; ++i) sum[i] += values[i];
  }
  return sum;
}

std::vector<RankOutcome> run_ranks(int ranks, const std::function<void(ThreadRank&)>& body) {
  ThreadWorld world({.ring = {.ranks = ranks}});
  return world.run(body);
}

void expect_success(const std::vector<RankOutcome>& outcomes) {
  for (const RankOutcome& outcome : outcomes) EXPECT_EQ(outcome.message, "");
  EXPECT_EQ(fake_leaks(), "");
}

class FakeNccl : public testing::Test {
 protected:
  void SetUp() override { reset_fake_nccl({}); }
  void TearDown() override { EXPECT_EQ(fake_leaks(), ""); }
};

TEST_F(FakeNccl, ResultsAreThereWhenACallReturns) {
  for (const int ranks : {1, 2, 3, 5}) {
    for (const int polls : {0, 1, 7}) {
      reset_fake_nccl({.seed = static_cast<std::uint64_t>(ranks * 10 + polls),
                       .start_polls = polls,
                       .launch_polls = polls});
      expect_success(run_ranks(ranks, [&](ThreadRank& host) {
        const auto nccl = join(host);
        for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{30'001}}) {
          Values values = values_of(host.rank(), count);
          nccl->all_reduce(values.data(), count, ElementType::kFloat32, ReduceOp::kSum);
          EXPECT_EQ(values, sum_of(ranks, count)) << ranks << " ranks, rank " << host.rank();
          for (int root = 0; root < ranks; ++root) {
            Values sent = values_of(host.rank(), count);
            nccl->broadcast(sent.data(), count, ElementType::kFloat32, root);
            EXPECT_EQ(sent, values_of(root, count));
          }
        }
        std::vector<std::int64_t> most = {host.rank(), -host.rank(), 7};
        nccl->all_reduce(most.data(), most.size(), ElementType::kInt64, ReduceOp::kMax);
        EXPECT_EQ(most, (std::vector<std::int64_t>{ranks - 1, 0, 7}));
      }));
    }
  }
}

TEST_F(FakeNccl, EveryTypeIsSentAsWhatItIs) {
  expect_success(run_ranks(2, [&](ThreadRank& host) {
    const auto nccl = join(host);
    const auto twice = [&](auto value, ElementType type) {
      auto sum = value;
      nccl->all_reduce(&sum, 1, type, ReduceOp::kSum);
      return sum;
    };
    EXPECT_EQ(twice(std::uint8_t{100}, ElementType::kUint8), 200);
    EXPECT_EQ(twice(std::int64_t{1} << 40, ElementType::kInt64), std::int64_t{1} << 41);
    EXPECT_EQ(twice(1.5F, ElementType::kFloat32), 3.0F);
    EXPECT_EQ(twice(1e300, ElementType::kFloat64), 2e300);
    EXPECT_EQ(twice(std::uint16_t{0x3c00}, ElementType::kFloat16), 0x4000) << "1 + 1 in half";
    EXPECT_EQ(twice(std::uint16_t{0x3f80}, ElementType::kBFloat16), 0x4000) << "1 + 1 in bfloat16";
  }));
}

// A bucket is summed after what fills it on the communicator's stream.
TEST_F(FakeNccl, SumsComeAfterWhatWasQueuedBefore) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    reset_fake_nccl({.seed = seed});
    expect_success(run_ranks(2, [&](ThreadRank& host) {
      const auto nccl = join(host);
      std::vector<std::uint8_t> bytes(100, 0);
      auto* const stream = static_cast<cudaStream_t>(nccl->stream());
      ASSERT_EQ(cudaMemsetAsync(bytes.data(), 20 + host.rank(), bytes.size(), stream), cudaSuccess);
      nccl->all_reduce(bytes.data(), bytes.size(), ElementType::kUint8, ReduceOp::kSum);
      EXPECT_EQ(bytes, std::vector<std::uint8_t>(100, 41));
    }));
  }
}

TEST_F(FakeNccl, ARankThatNeverComesEndsTheStart) {
  const auto outcomes = run_ranks(3, [&](ThreadRank& host) {
    if (host.rank() == 1) {  // it has the id, and goes no further
      char id[sizeof(ncclUniqueId)];
      host.broadcast(id, sizeof id, ElementType::kUint8, 0);
      return;
    }
    join(host);
  });
  for (const int rank : {0, 2}) {
    EXPECT_THAT(outcomes[static_cast<std::size_t>(rank)].message,
                testing::AnyOf(HasSubstr("the ranks have not reached each other"),
                               HasSubstr("remote error")));
  }
  EXPECT_EQ(outcomes[1].message, "");
}

// All others get out of the sum that it does not come to, and cannot go on.
TEST_F(FakeNccl, ALostRankIsAFailureOfARankOnAllOthers) {
  const auto outcomes = run_ranks(3, [&](ThreadRank& host) {
    const auto nccl = join(host);
    Values values = values_of(host.rank(), 100);
    nccl->all_reduce(values.data(), 100, ElementType::kFloat32, ReduceOp::kSum);
    if (host.rank() == 2) return;
    try {
      nccl->all_reduce(values.data(), 100, ElementType::kFloat32, ReduceOp::kSum);
      ADD_FAILURE() << "a sum without rank 2";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kRankFailure) << error.what();
    }
    nccl->all_reduce(values.data(), 100, ElementType::kFloat32, ReduceOp::kSum);
  });
  for (const int rank : {0, 1}) {
    EXPECT_THAT(outcomes[static_cast<std::size_t>(rank)].message,
                HasSubstr("used after a failure"));
  }
  EXPECT_EQ(outcomes[2].message, "");
}

// Whichever call of CUDA or NCCL fails: every rank ends in time, with an error of the right kind or
// with its sums, and leaves nothing behind.
TEST_F(FakeNccl, AnyCallMayFail) {
  constexpr int kRanks = 3;
  const auto work = [](ThreadRank& host) {
    const auto nccl = join(host);
    for (int step = 0; step < 2; ++step) {
      Values values = values_of(host.rank(), 50);
      nccl->all_reduce(values.data(), 50, ElementType::kFloat32, ReduceOp::kSum);
      EXPECT_EQ(values, sum_of(kRanks, 50));
    }
  };
  expect_success(run_ranks(kRanks, work));
  const std::int64_t calls = fake_call_count();
  ASSERT_GT(calls, 40);
  int failed = 0;
  for (std::int64_t call = 0; call < calls; ++call) {
    reset_fake_nccl({.seed = static_cast<std::uint64_t>(call), .failing_call = call});
    const auto start = std::chrono::steady_clock::now();
    const auto outcomes = run_ranks(kRanks, work);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
    EXPECT_EQ(fake_leaks(), "") << "call " << call;
    for (const RankOutcome& outcome : outcomes) {
      if (!outcome.failure) continue;
      ++failed;
      try {
        std::rethrow_exception(outcome.failure);
      } catch (const Error& error) {
        EXPECT_TRUE(error.kind() == ErrorKind::kUnavailable ||
                    error.kind() == ErrorKind::kRankFailure)
            << "call " << call << ": " << error.what();
      }
    }
  }
  EXPECT_GT(failed, calls) << "that ranks fail is the rule";
}

}  // namespace
}  // namespace retina
