// A classifier's metrics: against values worked out by hand and against a second, naive
// implementation. With torch and scikit-learn: tests/oracle/classification_metrics.py.
#include "shared/evaluation/score/classification.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "evaluate/explain/classification_text.h"
#include "shared/base/json.h"
#include "shared/numeric/random.h"
#include "tests/support/refusal.h"

namespace retina {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Ids 10, 20, ...
Categories categories_of(int class_count) {
  Categories categories;
  for (int label = 0; label < class_count; ++label) {
    categories.push_back({.id = 10 * (label + 1), .name = cat("class ", label)});
  }
  return categories;
}

// Images 1, 2, ... of random scores; with `levels` > 0 only so many different ones, so that many
// are equal.
struct RandomScores {
  int class_count = 0;
  std::vector<int> labels{};
  std::vector<std::vector<float>> scores{};
};

RandomScores random_scores(int class_count, int image_count, int levels, std::uint64_t seed) {
  RandomScores set{.class_count = class_count};
  const auto bound = static_cast<std::uint64_t>(class_count);
  for (int i = 0; i < image_count; ++i) {
    const RandomStream random{
        .seed = seed, .use = RandomUse::kTest, .stream = static_cast<std::uint32_t>(i)};
    set.labels.push_back(static_cast<int>(random.below(0, bound)));
    std::vector<float> scores;
    for (std::uint64_t k = 0; k < bound; ++k) {
      scores.push_back(
          levels > 0 ? static_cast<float>(random.below(k + 1, static_cast<std::uint64_t>(levels)))
                     : static_cast<float>(4 * random.normal(k + 1)));
    }
    set.scores.push_back(scores);
  }
  return set;
}

std::vector<ClassOutcome> outcomes_of(const RandomScores& set) {
  std::vector<ClassOutcome> outcomes;
  for (std::size_t i = 0; i < set.labels.size(); ++i) {
    outcomes.push_back(class_outcome({.image_id = static_cast<std::int64_t>(i) + 1,
                                      .label = set.labels[i],
                                      .scores = set.scores[i]}));
  }
  return outcomes;
}

// Labels best first, equal scores in ascending label order.
std::vector<int> ranking(const std::vector<float>& scores) {
  std::vector<int> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
  });
  return order;
}

long double naive_probability(const std::vector<float>& scores, int label) {
  long double sum = 0;
  for (const float score : scores) {
    sum += std::exp(static_cast<long double>(score) - scores[static_cast<std::size_t>(label)]);
  }
  return 1 / sum;
}

TEST(ClassOutcome, EqualsTheFullSortWhateverTheTies) {
  for (const int class_count : {1, 2, 3, 5, 6, 1000}) {
    for (const int levels : {0, 1, 2, 7}) {
      const RandomScores set =
          random_scores(class_count, class_count == 1000 ? 20 : 200, levels, 5);
      const std::vector<ClassOutcome> outcomes = outcomes_of(set);
      for (std::size_t i = 0; i < outcomes.size(); ++i) {
        SCOPED_TRACE(cat(class_count, " classes, ", levels, " levels, image ", i + 1));
        const ClassOutcome& one = outcomes[i];
        const std::vector<int> order = ranking(set.scores[i]);
        const auto own = std::find(order.begin(), order.end(), set.labels[i]);
        EXPECT_EQ(one.rank, own - order.begin());
        for (std::size_t place = 0; place < kBestLabels; ++place) {
          if (place >= order.size()) {
            EXPECT_EQ(one.best[place], -1);
            EXPECT_EQ(one.probabilities[place], 0);
            continue;
          }
          EXPECT_EQ(one.best[place], order[place]);
          const auto wanted = static_cast<double>(naive_probability(set.scores[i], order[place]));
          EXPECT_NEAR(one.probabilities[place], wanted, 1e-14);
        }
        const auto loss =
            static_cast<double>(-std::log(naive_probability(set.scores[i], set.labels[i])));
        EXPECT_NEAR(one.loss, loss, 1e-12);
      }
    }
  }
}

TEST(ClassOutcome, OfEqualScoresTheLowerLabelComesFirst) {
  const std::vector<float> equal{2, 2, 2};
  EXPECT_EQ(class_outcome({.image_id = 1, .label = 0, .scores = equal}).rank, 0);
  const ClassOutcome last = class_outcome({.image_id = 1, .label = 2, .scores = equal});
  EXPECT_EQ(last.rank, 2);
  EXPECT_EQ(last.predicted(), 0);
  EXPECT_FALSE(last.is_hit());
  EXPECT_DOUBLE_EQ(last.loss, std::log(3));
}

TEST(ClassOutcome, ScoresOfAnySizeDoNotOverflow) {
  constexpr float kHuge = std::numeric_limits<float>::max();
  const std::vector<float> scores{kHuge, -kHuge, 88};
  const ClassOutcome one = class_outcome({.image_id = 1, .label = 1, .scores = scores});
  EXPECT_EQ(one.confidence(), 1);
  EXPECT_DOUBLE_EQ(one.loss, 2 * static_cast<double>(kHuge));
}

TEST(ClassOutcome, AScoreThatIsNotFiniteIsRefusedNamingTheImage) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    const std::vector<float> scores{0, bad, 1};
    const auto make = [&] {
      class_outcome({.image_id = 4711, .file_name = "a.jpg", .label = 0, .scores = scores});
    };
    EXPECT_THAT(refusal_of(ErrorKind::kData, make),
                HasSubstr("a.jpg (image 4711): score of class 1 (got "));
  }
}

// Six images of three classes: truth 0 0 0 1 1 2, predicted 0 0 1 1 0 1.
std::vector<ClassOutcome> six_images() {
  const std::vector<std::pair<int, int>> pairs{{0, 0}, {0, 0}, {0, 1}, {1, 1}, {1, 0}, {2, 1}};
  std::vector<ClassOutcome> outcomes;
  for (const auto& [truth, predicted] : pairs) {
    std::vector<float> scores(3, 0);
    // .5, .25, .25 where it is right, and by image a little more confident where it is not.
    scores[static_cast<std::size_t>(predicted)] =
        std::log(2.0F) + (truth == predicted ? 0 : 0.1F * static_cast<float>(outcomes.size()));
    outcomes.push_back(class_outcome({.image_id = 100 + static_cast<std::int64_t>(outcomes.size()),
                                      .label = truth,
                                      .scores = scores}));
  }
  return outcomes;
}

TEST(Classification, EqualsTheNaiveFiguresOnRandomScores) {
  for (const int class_count : {1, 2, 3, 40}) {
    SCOPED_TRACE(cat(class_count, " classes"));
    const RandomScores set = random_scores(class_count, 500, 6, 11);
    const ClassificationMetrics metrics =
        classification_metrics(outcomes_of(set), categories_of(class_count));
    std::map<std::pair<int, int>, std::int64_t> confusion;
    std::array<double, kReliabilityBinCount> count{}, right{}, confidence{};
    double loss = 0;
    std::int64_t top1 = 0, top5 = 0;
    for (std::size_t i = 0; i < set.labels.size(); ++i) {
      const std::vector<int> order = ranking(set.scores[i]);
      const auto end = order.begin() + std::min<std::ptrdiff_t>(5, std::ssize(order));
      ++confusion[{set.labels[i], order[0]}];
      top1 += order[0] == set.labels[i] ? 1 : 0;
      top5 += std::find(order.begin(), end, set.labels[i]) != end ? 1 : 0;
      loss -= static_cast<double>(std::log(naive_probability(set.scores[i], set.labels[i])));
      const auto sure = static_cast<double>(naive_probability(set.scores[i], order[0]));
      std::size_t bin = 0;
      while (bin + 1 < kReliabilityBinCount && sure > static_cast<double>(bin + 1) / 15) ++bin;
      count[bin] += 1;
      right[bin] += order[0] == set.labels[i] ? 1 : 0;
      confidence[bin] += sure;
    }
    EXPECT_EQ(metrics.top1.hits, top1);
    EXPECT_EQ(metrics.top5.hits, top5);
    EXPECT_NEAR(metrics.loss, loss / 500, 1e-12);
    double error = 0;
    for (std::size_t i = 0; i < kReliabilityBinCount; ++i) {
      error += std::abs(right[i] - confidence[i]) / 500;
    }
    EXPECT_NEAR(metrics.calibration_error, error, 1e-12);
    std::size_t pair_count = 0;
    for (const ConfusedPair& pair : metrics.confusion) {
      EXPECT_EQ(pair.count, (confusion[{pair.truth, pair.predicted}]));
      ++pair_count;
    }
    EXPECT_EQ(confusion.size(), pair_count);
    for (int label = 0; label < class_count; ++label) {
      std::int64_t images = 0, predicted = 0;
      for (const auto& [pair, number] : confusion) {
        images += pair.first == label ? number : 0;
        predicted += pair.second == label ? number : 0;
      }
      const ImageClassMetrics& one = metrics.per_class[static_cast<std::size_t>(label)];
      EXPECT_EQ(one.image_count, images);
      EXPECT_EQ(one.predicted_count, predicted);
      EXPECT_EQ(one.hit_count, (confusion[{label, label}]));
    }
  }
}

TEST(Classification, AClassWithoutImagesIsNotInTheBalancedAccuracy) {
  const std::vector<float> scores{1, 0, 0};
  const ClassificationMetrics metrics = classification_metrics(
      {class_outcome({.image_id = 1, .label = 0, .scores = scores})}, categories_of(3));
  EXPECT_EQ(metrics.balanced_accuracy.value(), 1);
  EXPECT_FALSE(metrics.per_class[1].recall().value().has_value());
  EXPECT_FALSE(metrics.per_class[1].f1().has_value());
  EXPECT_THAT(classification_oddities_text(metrics), HasSubstr("2 of 3 classes have no image"));
}

TEST(Classification, ABinHoldsItsUpperEnd) {
  EXPECT_EQ(equal_width_bin(0, kReliabilityBinCount, true), 0U);
  EXPECT_EQ(equal_width_bin(1, kReliabilityBinCount, true), kReliabilityBinCount - 1);
  for (std::size_t i = 0; i + 1 < kReliabilityBinCount; ++i) {
    const double end = static_cast<double>(i + 1) / kReliabilityBinCount;
    EXPECT_EQ(equal_width_bin(end, kReliabilityBinCount, true), i);
    EXPECT_EQ(equal_width_bin(std::nextafter(end, 2), kReliabilityBinCount, true), i + 1);
  }
}

TEST(ClassExamples, AreTheMostConfidentMistakesAndThoseOfTheMostFrequentPairs) {
  const std::vector<ClassOutcome> outcomes = six_images();
  const ClassificationMetrics metrics = classification_metrics(outcomes, categories_of(3));
  const ClassExamples examples = class_examples(outcomes, metrics);
  EXPECT_THAT(examples.confident_wrong, ElementsAre(105, 104, 102));
  ASSERT_EQ(examples.most_confused.size(), 3U);
  EXPECT_EQ(examples.most_confused[0].pair, (ConfusedPair{0, 1, 1})) << "equals in label order";
  EXPECT_THAT(examples.most_confused[0].image_ids, ElementsAre(102));
  EXPECT_EQ(examples.most_confused[1].pair, (ConfusedPair{1, 0, 1}));
  std::vector<std::int64_t> shown;
  for (const ClassOutcome& one : examples.shown) shown.push_back(one.image_id);
  EXPECT_THAT(shown, ElementsAre(102, 104, 105));
}

TEST(ClassificationText, JsonHoldsEveryFigureAndNullForWhatDoesNotExist) {
  const std::vector<ClassOutcome> outcomes = six_images();
  ClassificationMetrics metrics = classification_metrics(outcomes, categories_of(3));
  metrics.quarantined_count = 4;
  const JsonFile file = JsonFile::parse(
      classification_json(metrics, class_examples(outcomes, metrics), {{102, "dog/2.jpg"}}),
      "metrics.json");
  const JsonView root = file.root();
  EXPECT_EQ(root.at("task").as_string(), "classification");
  EXPECT_EQ(root.at("top1").as_double(), .5);
  EXPECT_EQ(root.at("top1_interval").at(std::size_t{0}).as_double(), metrics.top1.interval()->low);
  EXPECT_EQ(root.at("loss").as_double(), metrics.loss);
  EXPECT_EQ(root.at("quarantined_count").as_int(), 4);
  ASSERT_EQ(root.at("per_class").size(), 3U);
  const JsonView last = root.at("per_class").at(std::size_t{2});
  EXPECT_EQ(last.at("category_id").as_int(), 30);
  EXPECT_EQ(last.at("recall").as_double(), 0);
  EXPECT_TRUE(last.at("precision").raw().IsNull());
  const JsonView cell = root.at("confusion").at(std::size_t{1});
  EXPECT_EQ(cell.at(std::size_t{0}).as_int(), 10);
  EXPECT_EQ(cell.at(std::size_t{1}).as_int(), 20);
  EXPECT_EQ(cell.at(std::size_t{2}).as_int(), 1);
  EXPECT_EQ(root.at("calibration").at("bins").size(), kReliabilityBinCount);
  EXPECT_EQ(root.at("confident_wrong").at(std::size_t{0}).as_int(), 105);
  const JsonView image = root.at("images").at(std::size_t{0});
  EXPECT_EQ(image.at("image_id").as_int(), 102);
  EXPECT_EQ(image.at("file_name").as_string(), "dog/2.jpg");
  EXPECT_EQ(image.at("top5").size(), 3U) << "no more than there are classes";
}

TEST(ClassificationText, TheSummaryHasTheFiguresWithTheirIntervals) {
  const ClassificationMetrics three = classification_metrics(six_images(), categories_of(3));
  const std::string text = classification_summary_text(three);
  EXPECT_THAT(text, HasSubstr("top-1        0.5000  0.1876 to 0.8124  (95 % interval)\n"));
  EXPECT_THAT(text, Not(HasSubstr("top-5"))) << "of three classes it is always 1";
  const RandomScores set = random_scores(6, 30, 0, 2);
  EXPECT_THAT(
      classification_summary_text(classification_metrics(outcomes_of(set), categories_of(6))),
      HasSubstr("top-5 "));
}

}  // namespace
}  // namespace retina
