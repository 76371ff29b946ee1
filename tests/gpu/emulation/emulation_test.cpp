// The emulation itself: it runs a kernel, and finds the faults that it is for.
#include <gmock/gmock.h>

#include "tests/gpu/emulation/device_array.h"
#include "tests/gpu/emulation/faulty_kernels.h"

namespace retina::emulation {
namespace {

using testing::HasSubstr;

TEST(Emulation, RunsBlocksWarpsAndSharedMemory) {
  const DeviceArray<float> out(128);
  ASSERT_STREQ(rotate_on(2, Fault::kNone, out.data()), nullptr);
  EXPECT_EQ(out.unwritten_count(), 0U);
  for (std::size_t i = 0; i < 128; ++i) EXPECT_EQ(out[i], static_cast<float>((i + 1) % 64)) << i;
  const DeviceArray<unsigned> counts(Content::kState, Zeros{1});
  ASSERT_STREQ(count_on(3, Fault::kNone, counts.data()), nullptr);
  EXPECT_EQ(counts[0], 3U * 64);
  const DeviceArray<float> in(Content::kInput, {1, 2, 3, 4, 5}), reversed(5);
  ASSERT_STREQ(reverse_block(5, in.data(), reversed.data()), nullptr);
  EXPECT_THAT(reversed.values(), testing::ElementsAre(5, 4, 3, 2, 1));
}

TEST(Emulation, FindsBarriersThatSomeThreadsMiss) {
  const DeviceArray<float> out(128);
  EXPECT_THAT(rotate_on(2, Fault::kTwoBarriers, out.data()), HasSubstr("different barriers"));
  EXPECT_THAT(rotate_on(2, Fault::kEarlyEnd, out.data()), HasSubstr("only some threads reach"));
  const DeviceArray<unsigned> counts(Content::kState, Zeros{1});
  EXPECT_THAT(count_on(1, Fault::kLoneLane, counts.data()), HasSubstr("lanes of its warp"));
  EXPECT_STREQ(rotate_on(2, Fault::kNone, out.data()), nullptr) << "after errors";
}

TEST(Emulation, RefusesSizesThatAGpuRefuses) {
  const DeviceArray<float> out(0);
  EXPECT_THAT(rotate_on(0, Fault::kNone, out.data()), HasSubstr("impossible sizes"));
  EXPECT_THAT(reverse_block(1025, out.data(), out.data()), HasSubstr("impossible sizes"));
}

#ifdef RETINA_WITH_ACCESS_CHECKS
TEST(Emulation, FindsRaces) {
  const DeviceArray<float> out(128);
  EXPECT_THAT(rotate_on(2, Fault::kNoBarrier, out.data()),
              AnyOf(HasSubstr("no barrier between"), HasSubstr("nobody has written")));
  EXPECT_THAT(rotate_on(2, Fault::kBlocksMeet, out.data()), HasSubstr("of another block"));
  const DeviceArray<unsigned> counts(Content::kState, Zeros{1});
  EXPECT_THAT(count_on(1, Fault::kNoAtomic, counts.data()), HasSubstr("no barrier between"));
}

TEST(Emulation, FindsWhatIsReadUnwrittenOrOutOfBounds) {
  const DeviceArray<float> out(128), input(Content::kInput, std::vector<float>(128));
  EXPECT_THAT(rotate_on(2, Fault::kUnwritten, out.data()), HasSubstr("nobody has written"));
  EXPECT_THAT(rotate_on(2, Fault::kUnwrittenOutput, DeviceArray<float>(128).data()),
              HasSubstr("nobody has written"));
  EXPECT_THAT(rotate_on(2, Fault::kPastEnd, out.data()), HasSubstr("no array has"));
  EXPECT_THAT(rotate_on(2, Fault::kNone, input.data()), HasSubstr("writes an input"));
}
#endif

}  // namespace
}  // namespace retina::emulation
