#include "shared/model/device.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "shared/base/error.h"

namespace retina {
namespace {

TEST(Tf32, IsSetForConvolutionsAndMatrixProducts) {
  for (const bool on : {false, true, false}) {
    set_tf32(on);
    EXPECT_EQ(at::globalContext().allowTF32CuDNN(at::Float32Op::CONV), on);
    EXPECT_EQ(at::globalContext().allowTF32CuBLAS(), on);
  }
}

TEST(Units, AreThoseThatTheSystemListsForTheCpu) {
  std::ifstream file("/proc/cpuinfo");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto lists = [&](const char* unit) { return text.find(unit) != std::string::npos; };
  EXPECT_TRUE(has_units_for(Precision::kFp32, c10::kCPU));
  EXPECT_EQ(has_units_for(Precision::kBf16, c10::kCPU),
            lists(" avx512_bf16") || lists(" amx_bf16"));
  EXPECT_EQ(has_units_for(Precision::kFp16, c10::kCPU), lists(" avx512_fp16"));
}

TEST(ChosenDevice, OfAMachineWithoutGpuSaysWhetherThisBuildCouldUseOne) {
  if (!visible_gpus().empty()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_TRUE(choose_device(DeviceChoice::kAuto).is_cpu());
  try {
    choose_device(DeviceChoice::kCuda);
    FAIL() << "there is no GPU";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
    const std::string text = cat(error.what(), "; ", error.hint());
    const bool has_cuda = at::globalContext().hasCUDART();
    EXPECT_EQ(text.find("--gpus all") != std::string::npos, has_cuda) << text;
    EXPECT_EQ(text.find("built without CUDA") == std::string::npos, has_cuda) << text;
  }
}

}  // namespace
}  // namespace retina
