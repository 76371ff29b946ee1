// That a GPU whose own kernels are wrong is found and does without them: each kernel in turn lacks
// its last block.
#include "shared/ops/own_kernels.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>

#include "tests/gpu/emulation/grid.h"
#include "tests/gpu/fake_device/fake_device.h"
#include "tests/support/ranks/thread_world.h"

namespace retina {
namespace {

using testing::AllOf, testing::HasSubstr, testing::IsEmpty, testing::Not;

const c10::Device kFakeGpu(c10::kCUDA, 0);

// By the launches, all there are. Two kernels have one name where two sources have.
const std::map<std::string, std::set<OwnKernel>> kKernels = {
    {"best_positives<T>", {OwnKernel::kAssigners}},
    {"claim_anchors<T>", {OwnKernel::kAssigners}},
    {"add_squares<Stored, kValues>", {OwnKernel::kBatchNorm, OwnKernel::kGroupNorm}},
    {"finish_statistics<Stored>", {OwnKernel::kBatchNorm}},
    {"normalise<Stored, kValues, true>", {OwnKernel::kBatchNorm}},
    {"normalise<Stored, kValues, false>", {OwnKernel::kBatchNorm}},
    {"add_gradients<Stored, kValues, true>", {OwnKernel::kBatchNorm}},
    {"add_gradients<Stored, kValues, false>", {OwnKernel::kBatchNorm}},
    {"finish_gradients<Stored>", {OwnKernel::kBatchNorm, OwnKernel::kGroupNorm}},
    {"put_input_gradients<Stored, kValues>", {OwnKernel::kBatchNorm, OwnKernel::kGroupNorm}},
    {"pass_and_add<Stored, kValues>", {OwnKernel::kBiasRelu}},
    {"finish_bias<Stored>", {OwnKernel::kBiasRelu}},
    {"pack_each", {OwnKernel::kBiasRelu}},
    {"one_each", {OwnKernel::kBiasRelu}},
    {"drop", {OwnKernel::kDropout}},
    {"finish_statistics<Stored, kValues>", {OwnKernel::kGroupNorm}},
    {"normalise<Stored, kValues>", {OwnKernel::kGroupNorm}},
    {"add_gradients<Stored, kValues>", {OwnKernel::kGroupNorm}},
    {"add_chunks<Stored, kValues>", {OwnKernel::kGroupNorm}},
    {"focal_share<false>", {OwnKernel::kLosses}},
    {"focal_share<true>", {OwnKernel::kLosses}},
    {"sum_partials", {OwnKernel::kLosses}},
    {"box_loss_share", {OwnKernel::kLosses}},
    {"best_matches<T>", {OwnKernel::kAssigners}},
    {"low_quality_matches<T>", {OwnKernel::kAssigners}},
    {"overlap_mask<T>", {OwnKernel::kNms}},
    {"scan_mask<T>", {OwnKernel::kNms}},
    {"ignore_anchors<T>", {OwnKernel::kAssigners}},
    {"prepare", {OwnKernel::kPrepareImages}},
};

std::set<OwnKernel> replaced_kernels() {
  const at::Tensor there = torch::zeros({1}, kFakeGpu);
  std::set<OwnKernel> all;
  for (int kernel = 0; kernel < kOwnKernelCount; ++kernel) {
    if (is_replaced(OwnKernel{kernel}, there)) all.insert(OwnKernel{kernel});
    EXPECT_FALSE(is_replaced(OwnKernel{kernel}, there.cpu()));
  }
  return all;
}

// What is logged.
std::string compare(at::ScalarType type, const std::set<std::string>& broken = {}) {
  fake_device::reset({.broken_kernels = broken});
  testing::internal::CaptureStderr();
  replace_wrong_kernels(kFakeGpu, type, *make_self_communicator());
  return testing::internal::GetCapturedStderr();
}

class OwnKernels : public testing::Test {
 protected:
  void TearDown() override { compare(at::kFloat); }
};

TEST_F(OwnKernels, AgreeWithLibTorchInOneLogLine) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const std::string log = compare(type);
    EXPECT_THAT(log, AllOf(HasSubstr("own kernels: 8 compared with LibTorch's operations in "),
                           Not(HasSubstr("warning"))));
    EXPECT_THAT(replaced_kernels(), IsEmpty()) << type;
    EXPECT_THAT(fake_device::violations(), IsEmpty());
  }
  std::set<std::string> names;
  for (const auto& [name, wrong] : kKernels) names.insert(name);
  std::set<std::string> launched = emulation::launched_kernels();
  for (const char* const of_emulation_test : {"rotate", "count", "reverse"}) {
    launched.erase(of_emulation_test);
  }
  EXPECT_EQ(launched, names) << "each is compared";
}

// One kernel of each family at a time.
TEST_F(OwnKernels, AreReplacedWhereAnyBlockIsMissing) {
  std::map<std::string, std::set<OwnKernel>> left(kKernels.begin(), kKernels.end());
  for (std::size_t round = 0; !left.empty(); ++round) {
    std::set<std::string> broken;
    std::set<OwnKernel> wrong;
    std::erase_if(left, [&](const auto& kernel) {
      const auto& [name, families] = kernel;
      if (std::any_of(families.begin(), families.end(),
                      [&](OwnKernel one) { return wrong.contains(one); })) {
        return false;
      }
      broken.insert(name);
      wrong.insert(families.begin(), families.end());
      return true;
    });
    const at::ScalarType type = std::array{at::kFloat, at::kBFloat16, at::kHalf}[round % 3];
    const std::string log = compare(type, broken);
    EXPECT_EQ(replaced_kernels(), wrong) << testing::PrintToString(broken) << type << log;
    EXPECT_THAT(log, HasSubstr("warning: own kernels: wrong on this GPU; "));
  }
}

// Rank 1 is a GPU on which only NMS is wrong.
TEST_F(OwnKernels, AreReplacedOnAllRanksIfOnOne) {
  fake_device::reset();
  ThreadWorld world({.ring = {.ranks = 2}});
  const auto outcomes = world.run([](ThreadRank& rank) {
    if (rank.rank() == 0) return replace_wrong_kernels(kFakeGpu, at::kFloat, rank);
    std::array<std::int64_t, kOwnKernelCount> wrong = {};
    wrong[static_cast<std::size_t>(OwnKernel::kNms)] = 1;
    rank.all_reduce(wrong.data(), wrong.size(), ElementType::kInt64, ReduceOp::kMax);
  });
  for (const RankOutcome& outcome : outcomes) EXPECT_EQ(outcome.message, "");
  EXPECT_THAT(replaced_kernels(), testing::ElementsAre(OwnKernel::kNms));
}

TEST_F(OwnKernels, LeaveRandomNumbersAsTheyAre) {
  at::manual_seed(3);
  const at::Tensor expected = torch::rand({5});
  at::manual_seed(3);
  compare(at::kFloat);
  EXPECT_TRUE(torch::rand({5}).equal(expected));
}

}  // namespace
}  // namespace retina
