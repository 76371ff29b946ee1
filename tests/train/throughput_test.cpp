#include "train/throughput.h"

#include <gtest/gtest.h>

namespace retina {
namespace {

TEST(Throughput, LeavesTheFirstStepsOut) {
  Throughput throughput;
  throughput.add(4, 60000, 4, 60000);
  throughput.add(4, 60000, 4, 60000);
  for (int i = 0; i < 10; ++i) throughput.add(4, 500, 4, 400);
  const auto communicator = make_self_communicator();
  const std::string text = throughput.summary(*communicator);
  EXPECT_NE(text.find("in total   8.00 over 10 steps, 1 rank\n"), std::string::npos) << text;
  EXPECT_NE(text.find("mean 10.00"), std::string::npos) << text;
}

TEST(Throughput, NamesTheSlowestRankAndTheSpread) {
  const std::string text = throughput_text(30, 7, {10, 12, 8});
  EXPECT_NE(text.find("least 8.00 (rank 2), most 12.00 (rank 1), spread 40.0 %"), std::string::npos)
      << text;
  EXPECT_NE(text.find("rank 1             12.00"), std::string::npos) << text;
}

TEST(Throughput, SaysNothingWithoutSteps) {
  const auto communicator = make_self_communicator();
  EXPECT_EQ(Throughput().summary(*communicator), "");
}

}  // namespace
}  // namespace retina
