#include "train/step/replica_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>

#include "shared/base/error.h"
#include "tests/support/ranks/thread_world.h"
#include "train/run/run_state.h"
#include "train/run/training_state.h"
#include "train/step/replica.h"

namespace retina {
namespace {

using testing::HasSubstr;

ReplicaOptions small_options() {
  ReplicaOptions options;
  options.task.model.backbone = "resnet18";
  options.task.model.class_count = 2;
  options.task.model.norm = Norm::kBatch;
  options.ema = 0.9;
  return options;
}

at::Tensor tensor_of(Replica& replica, const std::string& name) {
  for (const auto& [own, tensor] : state_of(replica.network())) {
    if (own == name) return tensor.detach();
  }
  ADD_FAILURE() << name;
  return {};
}

TEST(DriftText, NamesTheRanksThatDifferFromMost) {
  EXPECT_EQ(drift_text({5, 5, 5}), "");
  EXPECT_EQ(drift_text({5}), "");
  EXPECT_EQ(drift_text({5, 5, 7, 5}), "rank 2 holds different weights from ranks 0, 1, 3");
  EXPECT_EQ(drift_text({9, 5, 7, 5, 5}), "ranks 0, 2 hold different weights from ranks 1, 3, 4");
  EXPECT_EQ(drift_text({9, 5}), "rank 0 holds different weights from rank 1");
}

// Validation between the steps is in IEEE f32.
TEST(ReplicaTf32, IsForForwardAndBackwardAlone) {
  const auto is_on = [] { return at::globalContext().allowTF32CuDNN(at::Float32Op::CONV); };
  at::set_num_threads(1);
  const auto alone = make_self_communicator();
  for (const bool wanted : {true, false}) {
    ReplicaOptions options = small_options();
    options.tf32 = wanted;
    Replica replica(options, *alone);
    bool in_backward = !wanted;
    for (auto& [name, tensor] : state_of(replica.network())) {
      if (name != "backbone.body.conv1.weight") continue;  // the last that backward reaches
      tensor.register_hook([&](const at::Tensor&) { in_backward = is_on(); });
    }
    Batch batch{.samples = {{.slot = {}}}, .padded = {64, 64}};
    const std::size_t float_count = std::size_t{3} * 64 * 64;
    batch.images = std::make_shared<float[]>(float_count);
    batch.part.real_image_count = 1;
    replica.backward(replica.loss(replica.forward(batch), batch), batch.part.is_last_micro_batch);
    replica.all_reduce();
    EXPECT_EQ(in_backward, wanted);
    EXPECT_FALSE(is_on());
  }
}

TEST(ReplicaHash, SeesOneBitOfWhatRanksShareAndNothingElse) {
  at::set_num_threads(1);
  const auto alone = make_self_communicator();
  Replica replica(small_options(), *alone);
  const std::uint64_t before = replica.hash();
  EXPECT_EQ(replica.hash(), before);
  tensor_of(replica, "backbone.body.bn1.running_mean").add_(1);
  EXPECT_EQ(replica.hash(), before) << "each rank gathers its own";
  const at::Tensor weight = tensor_of(replica, "head.regression_head.bbox_reg.weight");
  float* const last = weight.data_ptr<float>() + weight.numel() - 1;
  const float value = *last;
  *last = std::nextafter(value, 2.0F);
  EXPECT_NE(replica.hash(), before);
  *last = value;
  EXPECT_EQ(replica.hash(), before);
}

TEST(CheckReplicas, EndsTheJobNamingStepAndRankThatDrifted) {
  at::set_num_threads(1);
  ThreadWorld world({.ring = {.ranks = 3}});
  const auto outcomes = world.run([&](ThreadRank& rank) {
    Replica replica(small_options(), rank);
    check_replicas(rank, replica.hash(), 7);
    if (rank.rank() == 1) {
      const at::Tensor bias = tensor_of(replica, "backbone.body.bn1.bias");
      bias.data_ptr<float>()[0] = std::nextafter(bias.data_ptr<float>()[0], 2.0F);
    }
    check_replicas(rank, replica.hash(), 8);
  });
  ASSERT_EQ(outcomes.size(), 3U);
  EXPECT_EQ(outcomes[0].message,
            "step 8: the replicas have drifted: rank 1 holds different weights from ranks 0, 2");
  try {
    std::rethrow_exception(outcomes[0].failure);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRankFailure);
    EXPECT_THAT(error.hint(), HasSubstr("run the same command again"));
  }
}

TEST(CheckReplicas, SendsTwoNumbersHoweverManyRanksThereAre) {
  for (const int ranks : {2, 8, 64}) {
    ThreadWorld world({.ring = {.ranks = ranks}});
    const auto outcomes = world.run([](ThreadRank& rank) { check_replicas(rank, 5, 7); });
    for (const RankOutcome& outcome : outcomes) {
      EXPECT_EQ(outcome.message, "");
      EXPECT_EQ(outcome.stats.all_reduce.calls, 1);
      EXPECT_EQ(outcome.stats.all_reduce.bytes, 16);
    }
  }
}

TEST(CheckReplicas, NamesOneOfManyAndTheOthersAsARange) {
  ThreadWorld world({.ring = {.ranks = 64}});
  const auto outcomes = world.run(
      [](ThreadRank& rank) { check_replicas(rank, rank.rank() == 9 ? ~std::uint64_t{0} : 1, 7); });
  EXPECT_EQ(outcomes[0].message,
            "step 7: the replicas have drifted: rank 9 holds different weights from ranks 0-8, "
            "10-63");
}

TEST(Rollback, KeepsWhatItSkipsAcrossARestart) {
  Rollback rollback;
  rollback.skip(4);
  rollback.skip(9);
  const RunState state{.skipped_steps = rollback.skipped()};
  EXPECT_THAT(state.to_json(), HasSubstr(R"("left_out_steps":[5,10])"))
      << "as the steps of metrics.jsonl";
  Rollback restarted;
  restarted.skip(6);
  restarted.merge(RunState::parse(state.to_json(), "test").skipped_steps);
  for (const std::int64_t step : {4, 6, 9}) EXPECT_TRUE(restarted.skips(step)) << step;
  EXPECT_FALSE(restarted.skips(5));
  EXPECT_EQ(restarted.skipped_before(6), 1);
  EXPECT_EQ(restarted.skipped_before(7), 2);
}

TEST(Rollback, ReturnsThreeTimesWithoutANewCheckpoint) {
  Rollback rollback;
  rollback.keep_start({});
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(rollback.may_return());
    rollback.skip(i);
  }
  EXPECT_FALSE(rollback.may_return());
  rollback.saved();
  EXPECT_FALSE(rollback.may_return()) << "after skipped steps alone";
  rollback.made_step();
  rollback.saved();
  EXPECT_TRUE(rollback.may_return());
  EXPECT_FALSE(rollback.start().has_value());
}

}  // namespace
}  // namespace retina
