// That the emulation runs a kernel, and finds the faults that it is for.
#include <gmock/gmock.h>
#include <torch/types.h>

#include "tests/gpu/emulation/faulty_kernels.h"

namespace retina::emulation {
namespace {

using testing::HasSubstr;

at::Tensor on_device(const at::Tensor& tensor) {
  return tensor.to(c10::Device(c10::kCUDA, 0));
}
at::Tensor unwritten(std::int64_t count) {
  return torch::empty({count}, c10::Device(c10::kCUDA, 0));
}
unsigned* counts_of(const at::Tensor& tensor) {
  return reinterpret_cast<unsigned*>(tensor.data_ptr<int>());
}

// What is wrong with rotate_on() of two blocks.
std::string rotated(Fault fault) {
  const char* const error = rotate_on(2, fault, unwritten(128).data_ptr<float>());
  return error == nullptr ? "" : error;
}

TEST(Emulation, RunsBlocksWarpsAndSharedMemory) {
  const at::Tensor out = unwritten(128);
  ASSERT_STREQ(rotate_on(2, Fault::kNone, out.data_ptr<float>()), nullptr);
  EXPECT_TRUE(out.cpu().equal((torch::arange(128) + 1).remainder(64).to(at::kFloat)));
  const at::Tensor counts = on_device(torch::zeros({1}, at::kInt));
  ASSERT_STREQ(count_on(3, Fault::kNone, counts_of(counts)), nullptr);
  EXPECT_EQ(counts.item<int>(), 3 * 64);
  const at::Tensor in = on_device(torch::arange(5).to(at::kFloat)), reversed = unwritten(5);
  ASSERT_STREQ(reverse_block(5, in.data_ptr<float>(), reversed.data_ptr<float>()), nullptr);
  EXPECT_TRUE(reversed.equal(in.flip(0)));
}

TEST(Emulation, FindsFaultsAndGoesOn) {
  EXPECT_THAT(rotated(Fault::kTwoBarriers), HasSubstr("different barriers"));
  EXPECT_THAT(rotated(Fault::kEarlyEnd), HasSubstr("only some threads reach"));
  EXPECT_THAT(rotated(Fault::kNoBarrier),
              AnyOf(HasSubstr("no barrier between"), HasSubstr("nobody has written")));
  EXPECT_THAT(rotated(Fault::kBlocksMeet), HasSubstr("of another block"));
  EXPECT_THAT(rotated(Fault::kUnwritten), HasSubstr("nobody has written"));
  EXPECT_THAT(rotated(Fault::kUnwrittenOutput), HasSubstr("nobody has written"));
  EXPECT_THAT(rotated(Fault::kPastEnd), HasSubstr("no tensor has"));
  for (const auto& [fault, text] : {std::pair(Fault::kLoneLane, "lanes of its warp"),
                                    std::pair(Fault::kNoAtomic, "no barrier between")}) {
    const at::Tensor counts = on_device(torch::zeros({1}, at::kInt));
    EXPECT_THAT(count_on(1, fault, counts_of(counts)), HasSubstr(text));
  }
  EXPECT_EQ(rotated(Fault::kNone), "");
}

TEST(Emulation, RefusesSizesThatAGpuRefuses) {
  float* const nothing = unwritten(0).data_ptr<float>();
  EXPECT_THAT(rotate_on(0, Fault::kNone, nothing), HasSubstr("impossible sizes"));
  EXPECT_THAT(reverse_block(1025, nothing, nothing), HasSubstr("impossible sizes"));
}

}  // namespace
}  // namespace retina::emulation
