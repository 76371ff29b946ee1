#include "shared/model/device.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

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

}  // namespace
}  // namespace retina
