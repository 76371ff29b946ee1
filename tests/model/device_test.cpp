#include "shared/model/device.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

namespace retina {
namespace {

TEST(Tf32, IsSetForConvolutionsAndMatrixProducts) {
  for (const bool on : {false, true, false}) {
    set_tf32(on);
    EXPECT_EQ(at::globalContext().allowTF32CuDNN(at::Float32Op::CONV), on);
    EXPECT_EQ(at::globalContext().allowTF32CuBLAS(), on);
  }
}

}  // namespace
}  // namespace retina
