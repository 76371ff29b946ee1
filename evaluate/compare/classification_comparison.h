// Two classifiers' evaluations of the same images side by side, from their predictions: which
// accuracies differ, whether chance explains it, and which images changed; as text, too. No
// LibTorch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "evaluate/compare/comparison.h"
#include "evaluate/explain/predictions.h"
#include "shared/coco/categories.h"
#include "shared/evaluation/score/proportion.h"

namespace retina {

// Change of one class's images.
struct ClassChange {
  std::int64_t category_id = 0;
  std::string name{};
  PairedHits hits{};  // the class's recall in A and B
};

// An image that exactly one of the two classifies correctly.
struct ImageFlip {
  std::int64_t image_id = 0;
  std::string file_name{};        // may be empty
  std::int64_t category_id = 0;   // the true class
  std::int64_t predicted_id = 0;  // from the side that is wrong
  double confidence = 0;          // from the side that is wrong
};

struct ClassificationComparison {
  std::int64_t image_count = 0;
  PairedHits top1{}, top5{};
  double loss_a = 0, loss_b = 0;  // means
  // Interval of the difference of the losses: its mean +- 1.96 standard errors over the images.
  // Unset for fewer than 2 images.
  std::optional<Interval> loss_interval{};
  std::vector<ClassChange> per_class{};  // in the order of the categories
  // Most confident mistake first, equals in ascending id order.
  std::vector<ImageFlip> only_a{}, only_b{};
};

// One of the two evaluations, for error messages.
struct ClassifiedSide {
  std::string name{};
  std::vector<Prediction> predictions{};
};

// Compares the predictions. Throws kConfig naming both sides and the first image that they do not
// share, or that they give different true classes; kData if a true class is not among the
// categories.
ClassificationComparison compare_predictions(const std::array<ClassifiedSide, 2>& sides,
                                             const Categories& categories);

// Returns tables for terminals: Top-1 with McNemar's test, top-5, loss; the classes by the size of
// their change. Control characters of names are escaped.
std::string classification_comparison_text(const ComparedNames& names,
                                           const ClassificationComparison& comparison);

// Returns the whole comparison as compare.json.
std::string classification_comparison_json(const ComparedNames& names,
                                           const ClassificationComparison& comparison);

// Returns the explanation of the intervals and of p for the reader.
std::string classification_interval_note(const ClassificationComparison& comparison);

}  // namespace retina
