#include "train/step/grad_scaler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <vector>

#include "tests/support/refusal.h"

namespace retina {
namespace {

using testing::ElementsAre, testing::HasSubstr;

constexpr GradScalerOptions kShort = {.init_scale = 16, .growth_interval = 3};

void update(GradScaler& scaler, bool found_inf) {
  scaler.update(torch::tensor(found_inf ? 1.0F : 0.0F));
}

// The scale after each of these steps.
std::vector<double> scales(GradScaler& scaler, const std::vector<bool>& found_infs) {
  std::vector<double> list;
  for (const bool found_inf : found_infs) {
    update(scaler, found_inf);
    list.push_back(scaler.scale().item<double>());
  }
  return list;
}

TEST(GradScaler, BeginsWithTheNumbersOfTorch) {
  GradScaler scaler({}, c10::kCPU);
  EXPECT_EQ(scaler.scale().item<double>(), 65536);
  for (int step = 0; step < 1999; ++step) update(scaler, false);
  EXPECT_EQ(scaler.scale().item<double>(), 65536);
  update(scaler, false);
  EXPECT_EQ(scaler.scale().item<double>(), 131072);
  update(scaler, true);
  EXPECT_EQ(scaler.scale().item<double>(), 65536);
}

TEST(GradScaler, GrowsAfterUpdatesInARowAndBacksOffAtOnce) {
  GradScaler scaler(kShort, c10::kCPU);
  EXPECT_THAT(scales(scaler, {false, false, false, false, false, true, false, false, false}),
              ElementsAre(16, 16, 32, 32, 32, 16, 16, 16, 32));
  EXPECT_THAT(scales(scaler, {true, true, true, true, true, true}),
              ElementsAre(16, 8, 4, 2, 1, 0.5));
  EXPECT_EQ(scaler.skipped_count(), 7);
}

TEST(GradScaler, GoesOnFromItsState) {
  GradScaler first(kShort, c10::kCPU), second(kShort, c10::kCPU);
  scales(first, {true, false, false});
  const at::Tensor scale = second.scale();
  second.load_state(first.state(), "a checkpoint");
  EXPECT_TRUE(second.scale().is_same(scale)) << "the gradients' divisor";
  EXPECT_EQ(second.skipped_count(), 1);
  EXPECT_EQ(scales(second, {false, false, true}), scales(first, {false, false, true}));
}

TEST(GradScaler, HasAStateOfItsOwn) {
  GradScaler scaler(kShort, c10::kCPU);
  const NamedTensors state = scaler.state();
  update(scaler, true);
  EXPECT_EQ(state[0].name, "grad_scaler.scale");
  EXPECT_EQ(state[0].tensor.item<double>(), 16);
  EXPECT_EQ(state[2].tensor.item<std::int64_t>(), 0);
}

TEST(GradScaler, NamesWhatACheckpointLacks) {
  GradScaler scaler(kShort, c10::kCPU);
  NamedTensors state = scaler.state();
  state.pop_back();
  EXPECT_THAT(refusal_of(ErrorKind::kConfig, [&] { scaler.load_state(state, "run/a.pt"); }),
              HasSubstr("run/a.pt: grad_scaler.skipped is missing"));
}

}  // namespace
}  // namespace retina
