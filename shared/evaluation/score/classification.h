// A classifier's metrics from the outcomes of its images: accuracies with intervals, cross-entropy,
// classes, confusions, calibration. No LibTorch:
//
//   outcomes.push_back(class_outcome({.image_id = 7, .label = 2, .scores = scores}));
//   std::cout << classification_summary_text(classification_metrics(outcomes, categories));
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/coco/categories.h"
#include "shared/evaluation/score/calibration.h"
#include "shared/evaluation/score/class_outcome.h"
#include "shared/evaluation/score/proportion.h"

namespace retina {

inline constexpr std::size_t kReliabilityBinCount = 15;  // Guo et al. 2017

struct ImageClassMetrics {
  std::int64_t category_id = 0;
  std::string name{};
  std::int64_t image_count = 0;      // images of the class
  std::int64_t predicted_count = 0;  // predicted as this class, rightly or not
  std::int64_t hit_count = 0;        // both

  Proportion recall() const { return {.hits = hit_count, .of = image_count}; }
  Proportion precision() const { return {.hits = hit_count, .of = predicted_count}; }
  // Returns 2 PR / (P + R) as 2 hits / (images + predicted); nothing if both are 0.
  std::optional<double> f1() const;
};

// A cell of the confusion matrix.
struct ConfusedPair {
  std::int32_t truth = 0, predicted = 0;  // labels; equal ones too
  std::int64_t count = 0;

  friend bool operator==(const ConfusedPair&, const ConfusedPair&) = default;
};

struct ClassificationMetrics {
  std::int64_t image_count = 0;
  Proportion top1{};
  Proportion top5{};    // the true class is one of the best `top5_labels`
  int top5_labels = 0;  // min(5, K): with five classes or fewer top-5 is always 1
  double loss = 0;      // mean cross-entropy
  // Mean recall of the classes that have images; unset if none has.
  std::optional<double> balanced_accuracy{};
  std::vector<ImageClassMetrics> per_class{};  // in label order
  std::vector<ConfusedPair> confusion{};       // cells that occur, by truth, then predicted
  // Images by the probability of their predicted class: bin i holds those in (i/15, (i+1)/15]. Guo
  // et al. 2017, "On calibration of modern neural networks".
  std::array<CalibrationBin, kReliabilityBinCount> reliability{};
  double calibration_error = 0;  // expected calibration error of these bins
  // Number of images that coco-pack quarantined, in none of the other numbers; filled by the
  // caller.
  std::int64_t quarantined_count = 0;
};

// Returns the metrics. `outcomes` in ascending image id order, each image once: sums are added in
// this order, so that the result does not depend on which rank computed which. Memory is O(images +
// classes). Parity: tests/oracle/classification_metrics.py.
ClassificationMetrics classification_metrics(const std::vector<ClassOutcome>& outcomes,
                                             const Categories& categories);

}  // namespace retina
