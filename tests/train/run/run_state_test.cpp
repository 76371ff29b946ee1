#include "train/run/run_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shared/base/json.h"
#include "tests/support/refusal.h"

namespace retina {
namespace {

using testing::HasSubstr;

TEST(RunState, ReadsBackWhatItWrote) {
  const RunState state{
      .step = 12,
      .epoch = 3,
      .samples_seen = 47,
      .epoch_closed = false,
      .skipped_steps = {4, 9},
      .adaptive_schedule = {.plateau = {.best = 0.25, .waited = 2},
                            .drops = 1,
                            .loss_sum = 1.0 / 3,
                            .loss_images = 8,
                            .ended_early = true},
      .ap = 0.1 + 0.2,
      .facts = {.train_fingerprint = "aa", .validation_fingerprint = "bb", .total_steps = 312}};
  const RunState read = RunState::parse(state.to_json(), "checkpoint.pt");
  EXPECT_EQ(read.step, 12);
  EXPECT_EQ(read.epoch, 3);
  EXPECT_EQ(read.samples_seen, 47);
  EXPECT_FALSE(read.epoch_closed);
  EXPECT_EQ(read.skipped_steps, state.skipped_steps);
  EXPECT_EQ(read.adaptive_schedule, state.adaptive_schedule);
  EXPECT_EQ(read.ap, state.ap);
  EXPECT_EQ(read.facts.train_fingerprint, "aa");
  EXPECT_EQ(read.facts.validation_fingerprint, "bb");
  EXPECT_EQ(read.facts.total_steps, 312);
}

// Part of the checkpoint format: other versions and people's scripts read these names.
TEST(RunState, KeepsItsKeys) {
  const RunState state{.ap = 0.5, .facts = {.validation_fingerprint = "bb"}};
  const JsonFile file = JsonFile::parse(state.to_json(), "state");
  for (const char* key :
       {"step", "epoch", "epoch_closed", "samples_seen", "seed", "images_per_step",
        "steps_per_epoch", "train_fingerprint", "lr", "lr_schedule", "base_lr", "effective_lr",
        "total_steps", "validation_fingerprint", "ap", "left_out_steps", "pacing"}) {
    EXPECT_TRUE(file.root().has(key)) << key;
  }
  EXPECT_FALSE(JsonFile::parse(RunState().to_json(), "state").root().has("ap"));
}

TEST(RunState, NamesTheCheckpointThatLacksAField) {
  const auto parse = [] { RunState::parse(R"({"step":1})", "checkpoint.pt"); };
  EXPECT_THAT(refusal_of(ErrorKind::kData, parse), HasSubstr("checkpoint.pt"));
}

}  // namespace
}  // namespace retina
