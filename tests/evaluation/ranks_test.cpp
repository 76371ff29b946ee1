#include "shared/evaluation/predict/ranks.h"

#include <gtest/gtest.h>

#include "shared/base/cat.h"
#include "shared/evaluation/score/class_outcome.h"
#include "tests/support/ranks/thread_world.h"

namespace retina {
namespace {

std::vector<ClassOutcome> outcomes_of_images(int count) {
  std::vector<ClassOutcome> outcomes;
  for (int i = 0; i < count; ++i) {
    const std::vector<float> scores{static_cast<float>(i % 5), 2, 1.5F};
    outcomes.push_back(class_outcome({.image_id = 10 * i - 7, .label = i % 3, .scores = scores}));
  }
  return outcomes;
}

TEST(GatherByImage, EveryOutcomeArrivesOnceInIdOrderWhateverTheNumberOfRanks) {
  const std::vector<ClassOutcome> whole = outcomes_of_images(53);
  for (const int rank_count : {1, 2, 5, 60}) {
    SCOPED_TRACE(cat(rank_count, " ranks"));
    ThreadWorld world({.ring = {.ranks = rank_count}});
    std::vector<ClassOutcome> gathered;
    const auto ends = world.run([&](ThreadRank& rank) {
      std::vector<ClassOutcome> share;
      for (auto i = static_cast<std::size_t>(rank.rank()); i < whole.size();
           i += static_cast<std::size_t>(rank_count)) {
        share.push_back(whole[i]);
      }
      std::vector<ClassOutcome> all = gather_by_image(rank, share);
      if (rank.is_root()) {
        gathered = std::move(all);
      } else {
        EXPECT_TRUE(all.empty());
      }
    });
    for (const RankOutcome& end : ends) EXPECT_EQ(end.message, "");
    ASSERT_EQ(gathered.size(), whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) {
      EXPECT_EQ(gathered[i].image_id, whole[i].image_id);
      EXPECT_EQ(gathered[i].label, whole[i].label);
      EXPECT_EQ(gathered[i].rank, whole[i].rank);
      EXPECT_EQ(gathered[i].loss, whole[i].loss);
      EXPECT_EQ(gathered[i].best, whole[i].best);
      EXPECT_EQ(gathered[i].probabilities, whole[i].probabilities);
    }
  }
}

}  // namespace
}  // namespace retina
