// Which GPU a rank takes.
#include "shared/model/device.h"

#include <set>

#include "tests/gpu/gpu.h"

namespace retina {
namespace {

TEST(DeviceOnGpu, IsTheFirstUnlessTheCpuIsAskedFor) {
  RETINA_GPU_OR_SKIP();
  EXPECT_EQ(choose_device(DeviceChoice::kAuto), c10::Device(c10::kCUDA, 0));
  EXPECT_EQ(choose_device(DeviceChoice::kCuda), c10::Device(c10::kCUDA, 0));
  EXPECT_EQ(choose_device(DeviceChoice::kCpu), c10::Device(c10::kCPU));
}

TEST(DeviceOnGpu, HasAnIdOfItsOwn) {
  RETINA_GPU_OR_SKIP();
  const std::vector<std::string> ids = visible_gpus();
  EXPECT_EQ(ids.size(), static_cast<std::size_t>(torch::cuda::device_count()));
  EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), ids.size());
  EXPECT_EQ(visible_gpus(), ids);
}

}  // namespace
}  // namespace retina
