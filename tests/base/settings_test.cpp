#include "shared/base/settings.h"

#include <gtest/gtest.h>

namespace retina {
namespace {

TEST(Settings, ThatAreEqualDoNotDiffer) {
  EXPECT_EQ(differences({}, {}), "");
  EXPECT_EQ(differences({{"lr", "0.1"}, {"seed", "1"}}, {{"seed", "1"}, {"lr", "0.1"}}), "");
}

TEST(Settings, TellEveryDifferenceWithBothValues) {
  EXPECT_EQ(differences({{"lr", "0.1"}, {"seed", "1"}, {"size", "8"}},
                        {{"lr", "0.2"}, {"size", "8"}, {"depth", "50"}}),
            "depth (was unset, now 50), lr (was 0.1, now 0.2), seed (was 1, now unset)");
}

}  // namespace
}  // namespace retina
