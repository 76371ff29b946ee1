#include "train/step_pipeline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace retina {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

StepMetrics step_of(double loss, double gradient_norm, double loss_scale) {
  return {.values = {loss, 1}, .gradient_norm = gradient_norm, .loss_scale = loss_scale};
}

TEST(ProblemOfAStep, IsALossOrAGradientThatIsNotFinite) {
  EXPECT_EQ(problem_of(step_of(2, 3, 0)), "");
  EXPECT_EQ(problem_of(step_of(kInfinity, 3, 0)),
            "the loss is not finite (classification inf, boxes 1)");
  EXPECT_EQ(problem_of(step_of(2, kInfinity, 0)), "the gradient is not finite (norm inf)");
}

// Not as long as a smaller loss scale may make it finite: the scale has no part in the loss.
TEST(ProblemOfAStep, IsNoGradientThatALossScaleMadeInfinite) {
  EXPECT_EQ(problem_of(step_of(2, 3, 1)), "");
  for (const double scale : {65536.0, 2.0}) {
    EXPECT_EQ(problem_of(step_of(2, kInfinity, scale)), "");
    EXPECT_EQ(problem_of(step_of(2, std::nan(""), scale)), "");
    EXPECT_NE(problem_of(step_of(std::nan(""), std::nan(""), scale)), "");
  }
  EXPECT_EQ(problem_of(step_of(2, kInfinity, 1)),
            "the gradient is not finite (norm inf), with a loss scale of 1");
}

}  // namespace
}  // namespace retina
