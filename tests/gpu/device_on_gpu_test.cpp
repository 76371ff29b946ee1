// Which GPU a rank takes.
#include "shared/model/device.h"
#include "tests/gpu/gpu.h"

namespace retina {
namespace {

TEST(DeviceOnGpu, IsThatOfTheRanksPlaceOrTheOneItSees) {
  RETINA_GPU_OR_SKIP();
  const auto cuda = [](c10::DeviceIndex index) { return c10::Device(c10::kCUDA, index); };
  EXPECT_EQ(choose_device(DeviceChoice::kAuto, {}), cuda(0));
  EXPECT_EQ(
      choose_device(DeviceChoice::kCuda, {.local_rank = 3, .local_size = 4, .sees_own_gpu = true}),
      cuda(0));
  EXPECT_EQ(choose_device(DeviceChoice::kCpu, {}), c10::Device(c10::kCPU));
  EXPECT_THROW(choose_device(DeviceChoice::kAuto, {.local_rank = 99, .local_size = 100}),
               std::exception);
}

TEST(DeviceOnGpu, TellsTheIdOfASingleGpu) {
  RETINA_GPU_OR_SKIP();
  EXPECT_EQ(only_gpu().empty(), torch::cuda::device_count() != 1);
  EXPECT_EQ(only_gpu(), only_gpu());
}

}  // namespace
}  // namespace retina
