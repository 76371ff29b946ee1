#include "shared/base/counted.h"

#include <gtest/gtest.h>

namespace retina {
namespace {

TEST(Counted, IsInThePluralUnlessItIsOne) {
  EXPECT_EQ(counted(0, "rank"), "0 ranks");
  EXPECT_EQ(counted(std::size_t{1}, "image"), "1 image");
  EXPECT_EQ(counted(2L, "class", "classes"), "2 classes");
  EXPECT_EQ(counted(1.5, "image"), "1.5 images");
}

}  // namespace
}  // namespace retina
