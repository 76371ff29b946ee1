#include "shared/evaluation/score/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace retina {
namespace {

using testing::EndsWith, testing::HasSubstr, testing::StartsWith, testing::Not;

VerdictInput measured(double ap) {
  return {
      .ap = ap, .interval = Interval{ap - .02, ap + .02}, .object_count = 500, .image_count = 60};
}

TrainingCourse course(std::vector<double> aps, std::vector<double> losses) {
  TrainingCourse result{.aps = std::move(aps),
                        .losses = std::move(losses),
                        .total_steps = 2000,
                        .first_loss = 2,
                        .last_loss = .5};
  for (std::size_t i = 0; i < result.aps.size(); ++i) {
    result.steps.push_back(2000.0 * static_cast<double>(i + 1) /
                           static_cast<double>(result.aps.size()));
  }
  return result;
}

TEST(Verdict, BeginsWithApItsIntervalAndItsMeaning) {
  EXPECT_EQ(verdict(measured(.4)),
            "AP 0.400 (95 % of such image sets: 0.380 to 0.420): good: most objects are "
            "found, their boxes are a little off");
  EXPECT_THAT(verdict(measured(.1)), HasSubstr("misses most"));
  EXPECT_THAT(verdict(measured(.7)), EndsWith("boxes fit closely"));
  EXPECT_EQ(verdict({.ap = -1}), "");
  VerdictInput input = measured(.4);
  input.lost_classes = {"cat", "dog"};
  EXPECT_THAT(verdict(input), EndsWith("; not found at all: cat, dog"));
}

TEST(Verdict, SaysWhyNothingIsFound) {
  VerdictInput input = measured(0);
  input.course = course({0, 0}, {1, 1});
  EXPECT_THAT(verdict(input), HasSubstr("preview"));
  input.course->last_loss = 2;
  EXPECT_THAT(verdict(input), HasSubstr("learning rate"));
  input.course->total_steps = 20;
  EXPECT_THAT(verdict(input), HasSubstr("give it more time: it made only 20 steps"));
}

TEST(Verdict, AsksForWhatHelpsMost) {
  VerdictInput input = measured(.4);
  input.course = course({.1, .2, .3, .35, .4}, {1, .9, .8, .7, .6});
  EXPECT_THAT(verdict(input), HasSubstr("the last fifth of the run still gained 0.050"));
  input.course = course({.1, .3, .4, .4, .4}, {1, .6, .6, .7, .8});
  EXPECT_THAT(verdict(input), HasSubstr("learned by heart"));
  input.course = course({.1, .3, .4, .4, .4}, {1, .6, .6, .6, .6});
  EXPECT_THAT(verdict(input), HasSubstr("a larger network"));
  input.object_count = 22;
  input.interval.reset();
  EXPECT_THAT(verdict(input),
              HasSubstr("label more validation images: 22 objects on 60 images tell little"));
}

}  // namespace
}  // namespace retina
