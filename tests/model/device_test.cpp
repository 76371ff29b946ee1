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

TEST(Bf16Units, AreThoseThatTheSystemListsForTheCpu) {
  std::ifstream file("/proc/cpuinfo");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const bool listed =
      text.find(" avx512_bf16") != std::string::npos || text.find(" amx_bf16") != std::string::npos;
  EXPECT_EQ(has_bf16_units(c10::kCPU), listed);
}

}  // namespace
}  // namespace retina
