#include "shared/evaluation/explanation.h"

#include <gtest/gtest.h>
TEST(X, Y) {}
