#include "convert/verification/score_match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace retina {
namespace {

using testing::HasSubstr;

TEST(ScoreMatch, RoundingIsEqualAndIsReported) {
  const ScoreMatch found =
      match_scores({.logits = {2, -1}, .probabilities = {0.9F, 0.1F}},
                   {.logits = {2.0001F, -1}, .probabilities = {0.900005F, 0.1F}});
  EXPECT_EQ(found.unequal_count, 0) << found.first_unequal;
  EXPECT_EQ(found.same_best_count, 1);
  EXPECT_NEAR(found.largest_probability, 5e-6, 1e-7);
  EXPECT_NEAR(found.largest_logit, 5e-5, 1e-6);
}

TEST(ScoreMatch, AProbabilityBeyondToleranceIsUnequal) {
  const ScoreMatch found = match_scores({.logits = {0, 0}, .probabilities = {0.5F, 0.5F}},
                                        {.logits = {0, 0}, .probabilities = {0.50002F, 0.5F}});
  EXPECT_EQ(found.unequal_count, 1);
  EXPECT_THAT(found.first_unequal, HasSubstr("probabilities differ"));
}

// The probabilities of such images tell nothing of the network.
TEST(ScoreMatch, LogitsCountWhereAClassIsCertain) {
  const ScoreMatch found = match_scores({.logits = {40, -60}, .probabilities = {1, 0}},
                                        {.logits = {40, -59}, .probabilities = {1, 0}});
  EXPECT_EQ(found.unequal_count, 1);
  EXPECT_THAT(found.first_unequal, HasSubstr("logits differ"));
}

TEST(ScoreMatch, AnotherBestClassIsEqualOnlyWhereTheyTie) {
  const ScoreMatch tie = match_scores({.logits = {0, 0}, .probabilities = {0.500004F, 0.499996F}},
                                      {.logits = {0, 0}, .probabilities = {0.499996F, 0.500004F}});
  EXPECT_EQ(tie.unequal_count, 0) << tie.first_unequal;
  EXPECT_EQ(tie.same_best_count, 0);
  const ScoreMatch other =
      match_scores({.logits = {0, 0}, .probabilities = {0.500006F, 0.499994F}},
                   {.logits = {0, 0}, .probabilities = {0.499998F, 0.500002F}});
  EXPECT_EQ(other.unequal_count, 1);
  EXPECT_THAT(other.first_unequal, HasSubstr("its best class is 1 (want 0)"));
}

TEST(ScoreMatch, NothingEqualsANumberThatIsNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const ClassScoreRow row{.logits = {bad, 0}, .probabilities = {bad, 0}};
    EXPECT_EQ(match_scores(row, row).unequal_count, 1);
  }
}

TEST(ScoreMatch, TheWorstOfAllImagesCounts) {
  const ClassScoreRow same{.logits = {1, 0}, .probabilities = {0.7F, 0.3F}};
  ScoreMatch total = match_scores(same, same);
  total.add(match_scores(same, {.logits = {1, 0.5F}, .probabilities = {0.6F, 0.4F}}));
  EXPECT_EQ(total.image_count, 2);
  EXPECT_EQ(total.same_best_count, 2);
  EXPECT_EQ(total.unequal_count, 1);
  EXPECT_NEAR(total.largest_probability, 0.1, 1e-6);
}

}  // namespace
}  // namespace retina
