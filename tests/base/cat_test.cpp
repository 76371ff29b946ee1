#include "shared/base/cat.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <string>

namespace retina {
namespace {

TEST(Fixed, PrintsExactlyTheDigitsAskedFor) {
  EXPECT_EQ(fixed(1.0, 3), "1.000");
  EXPECT_EQ(fixed(-0.0456, 2), "-0.05");
  EXPECT_EQ(fixed(1e300, 0).size(), 301U);
}

TEST(Shortest, ReadsBackAsTheSameNumber) {
  for (const double value : {0.1, 1.0 / 3.0, 5e-324, std::numeric_limits<double>::max(), -2.5}) {
    EXPECT_EQ(std::strtod(shortest(value).c_str(), nullptr), value);
  }
  EXPECT_EQ(shortest(0.1), "0.1");
}

TEST(HumanText, ChoosesTheUnit) {
  EXPECT_EQ(human_bytes(512), "512 B");
  EXPECT_EQ(human_bytes(3.25 * 1024 * 1024 * 1024), "3.2 GiB");
  EXPECT_EQ(human_seconds(42.4), "42 s");
  EXPECT_EQ(human_seconds(185), "3 min 05 s");
  EXPECT_EQ(human_seconds(7800), "2 h 10 min");
  EXPECT_EQ(human_seconds(std::numeric_limits<double>::infinity()), "unknown");
  EXPECT_EQ(counted(std::size_t{1}, "image"), "1 image");
  EXPECT_EQ(counted(2L, "class", "classes"), "2 classes");
  EXPECT_EQ(counted(1.5, "image"), "1.5 images");
}

}  // namespace
}  // namespace retina
