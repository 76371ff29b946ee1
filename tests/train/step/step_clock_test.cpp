#include "train/step/step_clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace retina {
namespace {

void pass_ms(int count) {
  std::this_thread::sleep_for(std::chrono::milliseconds(count));
}

TEST(StepClock, AddsUpThePartsOfAllPasses) {
  StepClock clock(c10::kCPU);
  for (int pass = 0; pass < 2; ++pass) {
    clock.begin(&PartTimes::forward_ms);
    pass_ms(10);
    clock.begin(&PartTimes::backward_ms);
    pass_ms(20);
    clock.end();
    pass_ms(40);  // of no part
  }
  const PartTimes times = clock.times(clock.take());
  EXPECT_GE(times.forward_ms, 20);
  EXPECT_GE(times.backward_ms, 40);
  EXPECT_EQ(times.loss_ms, 0);
  EXPECT_EQ(times.update_ms, 0);
}

TEST(StepClock, BeginsAgainWithEachStep) {
  StepClock clock(c10::kCPU);
  clock.begin(&PartTimes::update_ms);
  pass_ms(5);
  clock.end();
  EXPECT_GE(clock.times(clock.take()).update_ms, 5);
  EXPECT_EQ(clock.times(clock.take()).update_ms, 0);
}

}  // namespace
}  // namespace retina
