#include "shared/evaluation/explain/class_examples.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace retina {

namespace {

std::vector<ConfusedExamples> frequent_pairs(const ClassificationMetrics& metrics,
                                             std::size_t most) {
  std::vector<ConfusedExamples> pairs;
  for (const ConfusedPair& pair : metrics.confusion) {
    if (pair.truth != pair.predicted) pairs.push_back({.pair = pair});
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const ConfusedExamples& a, const ConfusedExamples& b) {
                     return a.pair.count > b.pair.count;
                   });
  if (pairs.size() > most) pairs.resize(most);
  return pairs;
}

}  // namespace

std::vector<const ClassOutcome*> mistakes_by_confidence(const std::vector<ClassOutcome>& outcomes) {
  std::vector<const ClassOutcome*> wrong;
  for (const ClassOutcome& one : outcomes) {
    if (!one.is_hit()) wrong.push_back(&one);
  }
  std::stable_sort(wrong.begin(), wrong.end(), [](const ClassOutcome* a, const ClassOutcome* b) {
    return a->confidence() > b->confidence();
  });
  return wrong;
}

ClassExamples class_examples(const std::vector<ClassOutcome>& outcomes,
                             const ClassificationMetrics& metrics,
                             const ClassExampleOptions& options) {
  const std::vector<const ClassOutcome*> wrong = mistakes_by_confidence(outcomes);
  ClassExamples examples{.most_confused = frequent_pairs(metrics, options.most_pairs)};
  std::set<std::int64_t> chosen;
  for (std::size_t i = 0; i < std::min(options.most_wrong, wrong.size()); ++i) {
    examples.confident_wrong.push_back(wrong[i]->image_id);
    chosen.insert(wrong[i]->image_id);
  }
  std::map<std::pair<std::int32_t, std::int32_t>, ConfusedExamples*> wanted;
  for (ConfusedExamples& one : examples.most_confused) {
    wanted[{one.pair.truth, one.pair.predicted}] = &one;
  }
  for (const ClassOutcome* one : wrong) {
    const auto found = wanted.find({one->label, one->predicted()});
    if (found == wanted.end()) continue;
    std::vector<std::int64_t>& ids = found->second->image_ids;
    if (ids.size() == options.most_of_pair) continue;
    ids.push_back(one->image_id);
    chosen.insert(one->image_id);
  }
  for (const ClassOutcome& one : outcomes) {
    if (chosen.contains(one.image_id)) examples.shown.push_back(one);
  }
  return examples;
}

}  // namespace retina
